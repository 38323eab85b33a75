"""What data sets there are: the files of each, their digests and addresses."""

from __future__ import annotations

from dataclasses import dataclass

_ARCHIVE = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


@dataclass(frozen=True)
class File:
    """One file: its name in a data folder, the sha256 of its bytes, where it comes from (a folder of UCI's, or a URL)."""

    name: str
    sha256: str
    folder: str

    @property
    def url(self) -> str:
        if self.folder.startswith("https:"):
            return f"{self.folder}/{self.name}"
        return f"{_ARCHIVE}{self.folder}/{self.name}"


@dataclass(frozen=True)
class Table:
    """Comma-separated files stacked into one set. Rows with "?" are left out; words become codes."""

    files: tuple[File, ...]
    label: int = -1
    drop: tuple[int, ...] = ()
    classes: tuple[str, ...] = ()
    sample: int | None = None
    feature_names: tuple[str, ...] = ()


_PENDIGITS = (
    File("pendigits.tra", "e2b9eb9f0d0467e2b64a4816a3420edf2b8043447576f4b84337aba44a9f97d3", "pendigits"),
    File("pendigits.tes", "8bd03229c5c5291fefe43e45465dd948d2645bf23328b9d993e0b777666b2015", "pendigits"),
)
_BREAST = "breast-cancer-wisconsin"
_SONAR = "undocumented/connectionist-bench/sonar"

UCI = {
    "wine": Table(
        (File("wine.data", "6be6b1203f3d51df0b553a70e57b8a723cd405683958204f96d23d7cd6aea659", "wine"),),
        label=0,
        feature_names=(
            "alcohol",
            "malic_acid",
            "ash",
            "alcalinity_of_ash",
            "magnesium",
            "total_phenols",
            "flavanoids",
            "nonflavanoid_phenols",
            "proanthocyanins",
            "color_intensity",
            "hue",
            "od280/od315_of_diluted_wines",
            "proline",
        ),
    ),
    "iris": Table(
        (File("iris.data", "6f608b71a7317216319b4d27b4d9bc84e6abd734eda7872b71a458569e2656c0", "iris"),),
        feature_names=("sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"),
    ),
    "ionosphere": Table(
        (File("ionosphere.data", "46d52186b84e20be52918adb93e8fb9926b34795ff7504c24350ae0616a04bbd", "ionosphere"),)
    ),
    "balance-scale": Table(
        (
            File(
                "balance-scale.data",
                "5611187ef7345d807aa8ae22615945ade52a190537c0b1434bd44c3e877c5bb4",
                "balance-scale",
            ),
        ),
        label=0,
        feature_names=("left_weight", "left_distance", "right_weight", "right_distance"),
    ),
    "soybean-small": Table(
        (File("soybean-small.data", "f096d1675db0270071311c9f46813b204372370bd68252a5a417bdcff5879717", "soybean"),)
    ),
    "soybean-large": Table(
        (
            File("soybean-large.data", "04b99f2728ded9f544022d2b4f6cce0ebe11ef5c9d44f10e21acd7093876507e", "soybean"),
            File("soybean-large.test", "ff1c5f5c41ddc9a8e3746648a2fe5cafb6b0eef86bd49575decbb665e1b6a104", "soybean"),
        ),
        label=0,
    ),
    "pendigits": Table(_PENDIGITS),
    "pendigits389": Table(_PENDIGITS, classes=("3", "8", "9"), sample=317),
    "sonar": Table(
        (File("sonar.all-data", "e90434cdbf00fcf93ffa911fe447ae25606979658e60f1d32e155c3b5240234d", _SONAR),)
    ),
    "breast-cancer": Table(
        (
            File(
                "breast-cancer-wisconsin.data",
                "402c585309c399237740f635ef9919dc512cca12cbeb20de5e563a4593f22b64",
                _BREAST,
            ),
        ),
        drop=(0,),
    ),
    "spambase": Table(
        (File("spambase.data", "b1ef93de71f97714d3d7d4f58fc9f718da7bbc8ac8a150eff2778616a8097b12", "spambase"),)
    ),
    "nursery": Table(
        (File("nursery.data", "8e0389c3dd37590248a921c2726d869ee96b817761a35eb8416afa24f31f931d", "nursery"),)
    ),
    "letter-recognition": Table(
        (
            File(
                "letter-recognition.data",
                "2b89f3602cf768d3c8355267d2f13f2417809e101fc2b5ceee10db19a60de6e2",
                "letter-recognition",
            ),
        ),
        label=0,
    ),
}

# name -> (loader in sklearn.datasets, classes kept)
BUNDLED = {
    "wine": ("load_wine", None),
    "iris": ("load_iris", None),
    "digits": ("load_digits", None),
    "digits389": ("load_digits", (3, 8, 9)),
    "breast-cancer-diagnostic": ("load_breast_cancer", None),
}


# the 104/104 split by aspect angle of Gorman and Sejnowski (1988): "*" before the name marks training
SONAR_SPLIT = (
    File("sonar.rocks", "f79e789d9ccc291b7aebe6008dc50d74f25c123ecb6dc8f7f1fe2dcfb680ba4e", _SONAR),
    File("sonar.mines", "f90b24e99b922ac37ec5d043dd93f3e571813137e3f80039cecbfbdac6a483f3", _SONAR),
)

_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
# images and labels of each part, as published
MNIST = {
    "train": (
        File("train-images-idx3-ubyte.gz", "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", _MNIST),
        File("train-labels-idx1-ubyte.gz", "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", _MNIST),
    ),
    "test": (
        File("t10k-images-idx3-ubyte.gz", "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", _MNIST),
        File("t10k-labels-idx1-ubyte.gz", "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", _MNIST),
    ),
}
