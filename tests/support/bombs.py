"""Small files that say they are large."""

import bz2
import gzip
import lzma
import zlib

import zstandard

LINE = b"1 qid:1 1:1\n"


COMPRESS = {
    "gzip": lambda data: gzip.compress(data, 1),
    "bzip2": bz2.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zstd": lambda data: zstandard.ZstdCompressor().compress(data),
}


def zstd_blocks(n_blocks, byte=b"\n", window_log=17, text=LINE):
    """A frame in which every block of four bytes is 128 KiB of one byte, after some text."""
    frame = b"\x28\xb5\x2f\xfd\0" + bytes([(window_log - 10) << 3 & 255])
    frame += (len(text) << 3).to_bytes(3, "little") + text
    repeated = (2**17 << 3 | 1 << 1).to_bytes(3, "little") + byte
    return frame + repeated * n_blocks + (1).to_bytes(3, "little")


def xz_window(data, code=40):
    """Compressed data that asks for a window of 4 GiB, or that with another code."""
    text = bytearray(lzma.compress(data))
    end = 12 + 4 * (text[12] + 1)
    text[16] = code
    text[end - 4 : end] = zlib.crc32(text[12 : end - 4]).to_bytes(4, "little")
    return bytes(text)
