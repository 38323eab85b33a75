"""Gene sequences: the public stand-in for the gyrB proteins of Tsuda 2004 and Kulis 2009."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bregmat_papers.datasets.catalogue import File
from bregmat_papers.datasets.files import data_folder, find, find_or_fetch

# groEL2 (hsp65) genes of Mycobacteriaceae; packed in a data folder, plain where it is published
_PRIMERS = "https://raw.githubusercontent.com/AGIScuipeng/PMPrimer_datasets/a13057ee8450f2fa7a57073e3f8a5a7c27b6208f"
GROEL2 = (
    File(
        "mycobacteriaceae_groEL2.fasta.gz", "41e1157fd77a5a28a566350f966de7b7c5769f0e98817583e7db91e2d3171569", _PRIMERS
    ),
    File(
        "Mycobacteriaceae_groEL2.filt.fasta",
        "7f3a86e8f432105fa0c078e0d5452d6a4fd492994fe31857d65d52a4518aa04e",
        _PRIMERS,
    ),
)
# the sizes that are recalled for the three species of the papers' 52 proteins
_SIZES = {"Mycobacterium": 31, "Mycolicibacterium": 11, "Mycolicibacter": 10}


@dataclass(frozen=True)
class Sequences:
    """Gene sequences with class labels.

    Attributes
    ----------
    sequences : tuple of str
        Nucleotides, letters A, C, G, T.
    y : ndarray of shape (n,), int64
        Class of every sequence, a position in `target_names`.
    species : tuple of str
        Genus and species of every sequence.
    target_names : tuple of str
        Genera.
    name, source : str
    """

    sequences: tuple[str, ...]
    y: np.ndarray
    species: tuple[str, ...]
    target_names: tuple[str, ...]
    name: str
    source: str

    def __repr__(self) -> str:
        return f"Sequences({self.name!r}, {len(self.sequences)}, {len(self.target_names)} genera, {self.source})"


def load_groel2(
    sizes: Mapping[str, int] | None = None,
    *,
    data_dir: str | os.PathLike | None = None,
    download: bool = False,
) -> Sequences:
    """groEL2 (hsp65) genes of Mycobacteriaceae, one per named species.

    A stand-in: the 52 x 52 kernel of gyrB proteins that the papers use is not public, so what is computed from these
    genes is to be labelled as a substitute.

    Parameters
    ----------
    sizes : mapping of str to int, optional
        How many species of each genus. Default: 31 Mycobacterium, 11 Mycolicibacterium, 10 Mycolicibacter (52).
    data_dir, download
        As for :func:`load_dataset`.

    Returns
    -------
    Sequences
        In the order of the file: for each species the first sequence without ambiguous letters that is not a copy of
        one already taken.

    Notes
    -----
    The file may be packed (``mycobacteriaceae_groEL2.fasta.gz``) or plain, as it is published.

    Raises
    ------
    ValueError
        If a genus has fewer species than asked for, or a file is not the published one.
    DataNotFoundError
    """
    sizes = dict(_SIZES if sizes is None else sizes)
    packed, plain = GROEL2
    folder = data_folder(data_dir)
    paths = find([packed], folder) or find_or_fetch("groel2", [plain], folder, download)
    taken: dict[str, tuple[str, str]] = {}
    counts = dict.fromkeys(sizes, 0)
    for title, sequence in _read_fasta(paths[0]):
        genus, kind = title.split()[1:3]
        species = f"{genus} {kind}"
        named = kind not in ("sp.", "cf.", "aff.")
        if counts.get(genus, 0) >= sizes.get(genus, 0) or not named or species in taken:
            continue
        if set(sequence) <= set("ACGT") and sequence not in {known for _, known in taken.values()}:
            taken[species] = (genus, sequence)
            counts[genus] += 1
    short = [f"{genus} {counts[genus]} of {size}" for genus, size in sizes.items() if counts[genus] < size]
    if short:
        raise ValueError(f"sizes={sizes!r}: the file has fewer species: {', '.join(short)}")
    genera = tuple(sizes)
    y = np.array([genera.index(genus) for genus, _ in taken.values()], dtype=np.int64)
    sequences = tuple(sequence for _, sequence in taken.values())
    return Sequences(sequences, y, tuple(taken), genera, "groel2", f"{paths[0].name}, one sequence per species")


def _read_fasta(path: Path) -> Iterator[tuple[str, str]]:
    """Title and sequence of every record."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as handle:
        title, parts = "", list[str]()
        for line in handle:
            if line.startswith(">"):
                if title:
                    yield title, "".join(parts)
                title, parts = line[1:].strip(), []
            else:
                parts.append(line.strip().upper())
        if title:
            yield title, "".join(parts)
