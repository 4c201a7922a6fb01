"""Runs the Python client of `vllm bench serve`, as published, without the rest of vLLM.

usage: vllm_client.py DIR ARGUMENTS...

DIR holds vllm/benchmarks of the wheel, unchanged; ARGUMENTS are those of
`vllm bench serve`. The client needs aiohttp, numpy, tqdm, regex and, for its tokenizer,
transformers. What else it imports (images, the engine's configuration) plays no part in
sending requests and reading streams: this file stands in for it.
"""

import argparse
import gc
import importlib.abc
import importlib.machinery
import logging
import sys
import types


class Kind(type):
    """Gives Anything every attribute, so that annotations can name them."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything


class Anything(metaclass=Kind):
    """A class for what is imported and not used."""

    def __init__(self, *args, **kwargs):
        pass

    def __getattr__(self, name):
        return Anything()

    def __call__(self, *args, **kwargs):
        return Anything()


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Kind(name, (Anything,), {})


def freeze_gc_heap():
    """As vLLM does it."""
    for generation in range(3):
        gc.collect(generation)
    gc.freeze()


def get_tokenizer(name, **_):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(name)


# What of vLLM outside of vllm.benchmarks the measured code does use.
USED = {
    "vllm.utils.argparse_utils": {"FlexibleArgumentParser": argparse.ArgumentParser},
    "vllm.utils.gc_utils": {"freeze_gc_heap": freeze_gc_heap},
    "vllm.utils.network_utils": {"join_host_port": lambda host, port: f"{host}:{port}"},
    "vllm.utils.mistral": {"is_mistral_tokenizer": lambda tokenizer: False},
    "vllm.logger": {"init_logger": logging.getLogger},
    "vllm.tokenizers": {"get_tokenizer": get_tokenizer},
}
MISSING = {"PIL", "pybase64"}


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, directory):
        self.directory = directory

    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if name.startswith("vllm.benchmarks") or top != "vllm" and top not in MISSING:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        if module.__name__ == "vllm":
            module.__path__ = [self.directory + "/vllm"]
        for name, value in USED.get(module.__name__, {}).items():
            setattr(module, name, value)


def main():
    directory, arguments = sys.argv[1], sys.argv[2:]
    sys.meta_path.insert(0, Finder(directory))
    from vllm.benchmarks import serve

    parser = argparse.ArgumentParser()
    serve.add_cli_args(parser)
    serve.main(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
