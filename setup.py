"""Packaging of keras-elmo."""

from pathlib import Path

from setuptools import find_packages, setup

ROOT = Path(__file__).resolve().parent
VERSION = {}
exec((ROOT / "keras_elmo" / "version.py").read_text(encoding="utf-8"), VERSION)

setup(
    name="keras-elmo",
    version=VERSION["__version__"],
    description="ELMo for Keras 3: contextual word vectors from a bidirectional language model",
    long_description=(ROOT / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    install_requires=["tensorflow>=2.16", "keras>=3.5", "numpy", "h5py", "rich"],
    extras_require={
        "tensorboard": ["tensorboard"],
        "onnx": ["tf2onnx>=1.17", "onnx", "onnxruntime"],
        "parquet": ["pyarrow>=17"],
        "ray": ["ray[data]>=2.30", "pyarrow>=17"],
        "test": [
            "tensorboard",
            "tf2onnx>=1.17",
            "onnx",
            "onnxruntime",
            "pyarrow>=17",
            "pytest>=7.4",
            "pytest-xdist>=3.3",
            "hypothesis>=6.80",
            "jax>=0.4.30",
            "seqeval",
            "matplotlib",
        ],
        "examples": ["seqeval", "matplotlib", "pyarrow"],
        "dev": ["ruff>=0.6", "build"],
    },
    # The bundled model stands beside the package in the repository and inside it when installed.
    packages=[*find_packages(include=["keras_elmo", "keras_elmo.*"]), "keras_elmo.weights.default"],
    package_dir={"keras_elmo.weights.default": "weights/default"},
    package_data={"keras_elmo.weights.default": ["*"]},
    entry_points={"console_scripts": ["keras-elmo=keras_elmo.cli:main"]},
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Text Processing :: Linguistic",
    ],
)
