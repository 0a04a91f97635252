"""The inverse of a penalty on the diagonal plus sums of products, as rows are added to the sums.

For rows Z (n x d), (A + Zᵀ Z)^-1 = P - Wᵀ (I + Z Wᵀ)^-1 W with P = A^-1 and W = Z P: time n d² and no matrix to
factorise but one of n x n. The inverse is symmetric, and only its upper triangle is kept, row after row.
"""

import math

from perceptrank.kernels.arrays import FloatRows, Floats
from perceptrank.kernels.compiled import helper, helper_sums_inlined


@helper_sums_inlined
def multiply(inverse: Floats, n: int, rows: FloatRows, images: FloatRows) -> None:
    """Make images[i] = inverse @ rows[i] for the first n, four rows of the triangle at a time."""
    d = rows.shape[1]
    for i in range(n):
        for k in range(d):
            images[i, k] = 0.0
    a = 0
    for k in range(0, d, 4):
        end = min(k + 4, d)
        place = a
        for p in range(k, end):  # the corner on the diagonal
            for i in range(n):
                images[i, p] += inverse[place] * rows[i, p]
            for r in range(p + 1, end):
                for i in range(n):
                    images[i, p] += inverse[place + r - p] * rows[i, r]
                    images[i, r] += inverse[place + r - p] * rows[i, p]
            place += d - p
        if end == d:
            return
        rest = d - end
        b, c, e = a + (d - k) + 3, a + 2 * (d - k) + 1, a + 3 * (d - k) - 2
        pa, pb = inverse[a + 4 : a + 4 + rest], inverse[b : b + rest]
        pc, pe = inverse[c : c + rest], inverse[e : e + rest]
        for i in range(n):
            za, zb, zc, ze = rows[i, k], rows[i, k + 1], rows[i, k + 2], rows[i, k + 3]
            sa, sb, sc, se = 0.0, 0.0, 0.0, 0.0
            row, image = rows[i, end:], images[i, end:]
            for j in range(rest):
                z = row[j]
                image[j] += za * pa[j] + zb * pb[j] + zc * pc[j] + ze * pe[j]
                sa += pa[j] * z
                sb += pb[j] * z
                sc += pc[j] * z
                se += pe[j] * z
            images[i, k] += sa
            images[i, k + 1] += sb
            images[i, k + 2] += sc
            images[i, k + 3] += se
        a = place


@helper_sums_inlined
def decorrelate(n: int, rows: FloatRows, images: FloatRows, lower: FloatRows) -> None:
    """Replace images W by L^-1 W, L being the Cholesky factor of I + rows Wᵀ; the factor is left in `lower`."""
    d = rows.shape[1]
    for i in range(n):
        for j in range(i + 1):
            product = 1.0 if i == j else 0.0
            for k in range(d):
                product += rows[i, k] * images[j, k]
            lower[i, j] = product
    for i in range(n):
        for j in range(i + 1):
            left = lower[i, j]
            for p in range(j):
                left -= lower[i, p] * lower[j, p]
            lower[i, j] = math.sqrt(left) if i == j else left / lower[j, j]
    for i in range(n):
        for j in range(i):
            factor = lower[i, j]
            for k in range(d):
                images[i, k] -= factor * images[j, k]
        for k in range(d):
            images[i, k] /= lower[i, i]


@helper_sums_inlined
def subtract_squares(inverse: Floats, n: int, images: FloatRows) -> None:
    """Make inverse -= the sum of the products of images[i] with itself, over the first n, four at a time."""
    d, place = images.shape[1], 0
    for k in range(d):
        row = inverse[place : place + d - k]
        for i in range(0, n - n % 4, 4):
            a, b, c, e = images[i, k:], images[i + 1, k:], images[i + 2, k:], images[i + 3, k:]
            va, vb, vc, ve = a[0], b[0], c[0], e[0]
            for j in range(d - k):
                row[j] -= va * a[j] + vb * b[j] + vc * c[j] + ve * e[j]
        for i in range(n - n % 4, n):
            a = images[i, k:]
            va = a[0]
            for j in range(d - k):
                row[j] -= va * a[j]
        place += d - k


@helper
def divide_feature(penalty: float, k: int, ratio: float, inverse: Floats, column: Floats) -> None:
    """Update the inverse of penalty I + Zᵀ Z for column k of Z divided by a ratio.

    Row and column k of Zᵀ Z are divided, but the penalty is not: those of the inverse are multiplied, and
    penalty (1 - 1 / ratio²) is added to the diagonal of the matrix. Its own row is divided instead of subtracted from,
    as a large ratio would leave little but rounding errors of a difference.
    """
    d, place = len(column), k
    for j in range(k):
        column[j] = ratio * inverse[place]
        place += d - 1 - j
    for j in range(k, d):
        column[j] = ratio * inverse[place + j - k]
    column[k] *= ratio
    added = penalty * (1.0 - 1.0 / (ratio * ratio))
    rest = 1.0 + added * column[k]
    share, place = added / rest, 0
    for i in range(d):
        factor = share * column[i]
        if i == k:
            for j in range(k, d):
                inverse[place + j - i] = column[j] / rest
        else:
            for j in range(i, d):
                inverse[place + j - i] -= factor * column[j]
            if i < k:
                inverse[place + k - i] = column[i] / rest
        place += d - i
