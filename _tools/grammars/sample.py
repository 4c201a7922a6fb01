"""Writes a sample of schemas with texts, one JSON object a line.

usage: sample.py OUT [MASKBENCH]

With MASKBENCH, a folder of its files (maskbench/data of guidance-ai/jsonschemabench), 1500 of
them with their texts. Without it, schemas of two packages: the resources of Kubernetes
(kubernetes-validate) and the files that check-jsonschema knows, with one text each that is
written here and that the package jsonschema finds valid. The same in every run.
"""

import json
import pathlib
import random
import sys

COUNT = 1500
LARGEST = 300_000  # bytes of a schema
FORMATTED = {"date-time": "2026-01-02T03:04:05Z", "uri": "https://example.com/a", "date": "2026-01-02", "byte": "YWJj"}


def of_maskbench(folder, rng):
    files = sorted(pathlib.Path(folder).glob("*.json"))
    for file in sorted(rng.sample(files, min(COUNT, len(files)))):
        data = json.loads(file.read_text())
        texts = [(json.dumps(t["data"], ensure_ascii=False), t["valid"]) for t in data.get("tests", [])]
        yield file.name, data["schema"], texts


def bundled(schema, definitions):
    """Returns schema with the definitions of another file that it refers to."""
    used = {}

    def local(node):
        if isinstance(node, list):
            return [local(n) for n in node]
        if not isinstance(node, dict):
            return node
        out = {k: local(v) for k, v in node.items()}
        ref = out.get("$ref")
        if isinstance(ref, str) and "#/$defs/" in ref:
            name = ref.split("#/$defs/")[1]
            out["$ref"] = "#/$defs/" + name
            if name not in used and name in definitions:
                used[name] = None
                used[name] = local(definitions[name])
        return out

    out = local(schema)
    return {**out, "$defs": used} if used else out


class Writer:
    """Writes an instance of a schema, members in its order; it may be wrong."""

    def __init__(self, root, rng):
        self.root, self.rng = root, rng

    def resolve(self, schema):
        for _ in range(20):
            if not isinstance(schema, dict) or not str(schema.get("$ref", "")).startswith("#/"):
                break
            schema_at = self.root
            for step in schema["$ref"][2:].split("/"):
                schema_at = schema_at.get(step.replace("~1", "/").replace("~0", "~"), {}) if isinstance(schema_at, dict) else {}
            schema = schema_at
        return schema if isinstance(schema, dict) else {}

    def value(self, schema, name, depth):
        schema = self.resolve(schema)
        if "const" in schema:
            return schema["const"]
        if schema.get("enum"):
            return self.rng.choice(schema["enum"])
        for key in ("anyOf", "oneOf"):
            if schema.get(key) and "properties" not in schema:
                return self.value(self.rng.choice(schema[key]), name, depth + 1)
        kind = schema.get("type", "object" if "properties" in schema else "string")
        kind = kind[0] if isinstance(kind, list) else kind
        if kind == "object":
            required = schema.get("required", [])
            properties = schema.get("properties", {})
            keep = [n for n in properties if n in required or (depth < 4 and self.rng.random() < 0.5)]
            return {n: self.value(properties[n], n, depth + 1) for n in keep}
        if kind == "array":
            items = schema.get("items", {})
            return [self.value(items, name, depth + 1) for _ in range(1 + (depth < 3))] if isinstance(items, dict) else []
        if kind in ("integer", "number"):
            return max(self.rng.randint(1, 90), int(schema.get("minimum", 0)))
        if kind == "boolean":
            return self.rng.random() < 0.5
        if schema.get("format") in FORMATTED:
            return FORMATTED[schema["format"]]
        return None if kind == "null" else f"the {name} of a thing {self.rng.randint(1, 99)}"


def of_packages(rng):
    import check_jsonschema
    import jsonschema
    import kubernetes_validate

    found = {}
    folder = pathlib.Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema"
    folder = folder / sorted(p.name for p in folder.iterdir() if p.name.endswith("-local-strict"))[-1]
    definitions = json.loads((folder / "_definitions.json").read_text())["$defs"]
    for file in sorted(folder.glob("*.json")):
        if not file.name.startswith("_") and file.name != "all.json":
            found[file.name] = bundled(json.loads(file.read_text()), definitions)
    for file in sorted((pathlib.Path(check_jsonschema.__file__).parent / "builtin_schemas").glob("**/*.json")):
        found[file.name] = json.loads(file.read_text())
    for name, schema in found.items():
        if len(json.dumps(schema)) > LARGEST:
            continue
        texts = []
        for _ in range(4):
            instance = Writer(schema, rng).value(schema, "root", 0)
            try:
                jsonschema.validators.validator_for(schema)(schema).validate(instance)
            except Exception:  # of any kind: the text is left out
                continue
            texts.append((json.dumps(instance), True))
            break
        yield name, schema, texts


def main():
    rng = random.Random(1)
    source = of_maskbench(sys.argv[2], rng) if len(sys.argv) > 2 and sys.argv[2] else of_packages(rng)
    count = 0
    with open(sys.argv[1], "w") as out:
        for name, schema, texts in source:
            line = {"name": name, "schema": schema, "texts": [{"text": t, "valid": v} for t, v in texts]}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")
            count += 1
    print(count, "schemas")


if __name__ == "__main__":
    main()
