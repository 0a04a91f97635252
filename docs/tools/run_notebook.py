"""Run examples/lecture.ipynb and write it with its outputs: small pictures, and nothing that differs from run to run.

Run as: python docs/tools/run_notebook.py
"""

import base64
import io
import tempfile
from pathlib import Path

import nbclient
import nbformat
from PIL import Image

NOTEBOOK = Path(__file__).parents[2] / "examples" / "lecture.ipynb"
COLORS = 32  # of a picture, which halves its size


def execute(folder):
    """Return the notebook with the outputs of a run in a folder."""
    notebook = nbformat.read(NOTEBOOK, as_version=nbformat.NO_CONVERT)
    metadata = dict(notebook.metadata)
    resources = {"metadata": {"path": str(folder)}}
    nbclient.NotebookClient(
        notebook, timeout=300, kernel_name="python3", resources=resources, record_timing=False
    ).execute()
    notebook.metadata = nbformat.from_dict(metadata)  # without the version of Python
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                output["data"]["image/png"] = shrink(output["data"]["image/png"])
    return notebook


def shrink(text):
    """Return a picture with few colors."""
    picture = Image.open(io.BytesIO(base64.b64decode(text))).convert("RGB").quantize(COLORS, dither=Image.Dither.NONE)
    small = io.BytesIO()
    picture.save(small, "png", optimize=True)
    return base64.b64encode(small.getvalue()).decode()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        nbformat.write(execute(place), NOTEBOOK)
    print(f"{NOTEBOOK}: {NOTEBOOK.stat().st_size / 1000:.0f} kB")
