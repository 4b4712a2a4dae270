"""Matrices of numpy, scipy, torch or torch_sparse as dense float32 or CSR with int64 indices."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from erase.data.fields import to_tensor
from erase.data.limits import check_numbers, check_width
from erase.errors import EraseError

SPARSE_BELOW = 0.2  # dense features with at most this share of non-zeros are kept as CSR
FLOAT32_END = 2.0**128 - 2.0**103  # half a step past the largest float32: rounds to infinity


def feature_matrix(given: Any, first: int = 0) -> Any:
    """Return features as a dense tensor [N, F] float32 or a fresh scipy CSR, or None.

    Messages count nodes from `first`.
    """
    if given is None:
        return None
    if _is_sparse(given):
        matrix = scipy_csr(given, first)
        check_width(matrix.shape[1], matrix.nnz)
        return matrix
    if isinstance(given, np.ma.MaskedArray):
        given = np.where(np.ma.getmaskarray(given), np.nan, np.ma.getdata(given))
    dense = to_tensor(given, "features")
    if dense.dim() != 2 or dense.is_complex():
        raise EraseError(
            "x of shape [N, F], real numbers",
            f"shape {list(dense.shape)}, {dense.dtype}",
            "Give one row of features per node; x[:, None] makes one column of x [N].",
        )
    if dense.dtype == torch.float64 and bool((large := is_too_large(dense)).any()):
        i, j = large.nonzero()[0].tolist()
        raise too_large(float(dense[i, j]), f"node {first + i}, column {j}")
    return dense.to(torch.float32)


def _is_sparse(given: Any) -> bool:
    if isinstance(given, Tensor):
        return given.layout != torch.strided
    return sp.issparse(given) or hasattr(given, "to_torch_sparse_coo_tensor")


def scipy_csr(given: Any, first: int = 0) -> Any:
    """Return a sparse matrix of scipy, torch or torch_sparse as a fresh canonical CSR, float32."""
    if hasattr(given, "to_torch_sparse_coo_tensor"):
        given = given.to_torch_sparse_coo_tensor()
    if isinstance(given, Tensor):
        given = checked_sparse(given)
        if given.layout == torch.sparse_coo:
            given = given.coalesce()
            values, index = _numpy_values(given.values()), given.indices().numpy()
            matrix = sp.coo_matrix((values, tuple(index)), shape=given.shape)
        elif given.layout in (torch.sparse_csr, torch.sparse_csc):
            by_row = given.layout == torch.sparse_csr
            outer = given.crow_indices() if by_row else given.ccol_indices()
            inner = given.col_indices() if by_row else given.row_indices()
            parts = (_numpy_values(given.values()), inner.numpy(), outer.numpy())
            matrix = (sp.csr_matrix if by_row else sp.csc_matrix)(parts, shape=given.shape)
        else:
            matrix = _numpy_values(given.to_dense())
    else:
        matrix = given
    if matrix.ndim != 2:
        raise EraseError("a matrix of rows and columns", f"{matrix.ndim} dimensions", "Reshape it.")
    check_numbers(matrix.shape[0], "a sparse matrix")
    if getattr(matrix, "format", "") in ("csr", "csc"):
        try:
            matrix.check_format(full_check=True)  # an index out of bounds would crash scipy
        except ValueError as error:
            raise EraseError(
                "a well-formed sparse matrix", f"{error}", "Build it again from its entries."
            ) from None
    if matrix.dtype.kind not in "biuf":
        raise EraseError(
            "a matrix of real numbers", f"{matrix.dtype}", "Turn them into real numbers."
        )
    wide = np.float64 if matrix.dtype.kind == "f" and matrix.dtype.itemsize > 4 else np.float32
    fresh = sp.csr_matrix(matrix, dtype=wide, copy=True)
    fresh.sum_duplicates()
    if wide is np.float64 and (large := is_too_large(fresh.data)).any():
        at = int(np.flatnonzero(large)[0])
        i = first + int(np.searchsorted(fresh.indptr, at, "right")) - 1
        raise too_large(float(fresh.data[at]), f"node {i}, column {fresh.indices[at]}")
    fresh = fresh.astype(np.float32, copy=False)
    fresh.eliminate_zeros()
    return fresh


def checked_sparse(given: Tensor) -> Tensor:
    """Return a sparse tensor on the CPU, if its indices are in range; others crash torch."""
    if given.is_meta or given.is_quantized or given.is_nested or given.layout == torch.jagged:
        raise EraseError("a matrix of numbers", f"a {given.dtype} tensor", "Convert it to float32.")
    given = given.detach().cpu()
    try:
        if given.layout == torch.sparse_coo:
            index, values = given._indices(), given._values()
            torch.sparse_coo_tensor(index, values, given.shape, check_invariants=True)
        elif given.layout != torch.strided:
            by_row = given.layout in (torch.sparse_csr, torch.sparse_bsr)
            inner = given.col_indices() if by_row else given.row_indices()
            if inner.numel() == 0:  # numpy 2.0 gives empty arrays strides that torch refuses
                inner = inner.new_empty(inner.shape)
            torch.sparse_compressed_tensor(
                given.crow_indices() if by_row else given.ccol_indices(),
                inner,
                given.values(),
                given.shape,
                layout=given.layout,
                check_invariants=True,
            )
    except (RuntimeError, NotImplementedError) as error:
        reason = str(error).strip().splitlines()[0]
        raise EraseError(
            "a well-formed sparse matrix", reason, "Build it again from its entries."
        ) from None
    return given


def _numpy_values(values: Tensor) -> Any:
    """Return values as numpy has them: of the narrow types it lacks bfloat16."""
    kept = values.dtype == torch.float64 or values.is_complex()
    return (values if kept else values.float()).numpy()


def csr_tensor(matrix: Any) -> Tensor:
    """Return a scipy CSR as a torch CSR with int64 indices."""
    with warnings.catch_warnings():  # "CSR support is in beta", once in each process
        warnings.simplefilter("ignore", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(matrix.data.astype(np.float32)),
            size=matrix.shape,
            check_invariants=False,
        )


def is_too_large(values: Any) -> Any:
    """Return where `values` are finite, but would be infinite in float32."""
    return (abs(values) >= FLOAT32_END) & (abs(values) != float("inf"))


def too_large(value: float, where: str) -> EraseError:
    """Return the error for a feature that float32 cannot hold."""
    return EraseError(
        "features that float32 can hold, up to 3.4e38",
        f"{value:g} at {where}",
        "It is too large: rescale that column.",
    )
