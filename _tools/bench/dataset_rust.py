"""Makes internal/bench/dataset/testdata/rust.json: what vLLM's compiled client sends.

    python dataset_rust.py CLIENT TOKENIZER TESTDATA

CLIENT is vllm/vllm-rs from the wheel of vllm 0.33.0, TOKENIZER a folder with the
tokenizer.json of gpt-oss. Prompts arrive one at a time, in the order of the workload.
"""

import asyncio
import hashlib
import json
import sys

RANDOM = "--random-input-len 30 --random-output-len 20 --dataset-name random --num-prompts 40 --seed 3"
RUNS = {
    "random plain": "--dataset-name random --num-prompts 40 --seed 0 --random-input-len 100 --random-output-len 20",
    "random ranges": "--dataset-name random --num-prompts 40 --seed 7 --random-input-len 100 --random-output-len 20 --random-range-ratio 0.5",
    "random prefix": RANDOM + " --random-prefix-len 200",
    "random ids": RANDOM + " --random-prefix-len 5 --prompt-token-ids",
    "random cached": RANDOM + " --random-range-ratio 0.2 --random-cache-hit-fraction 0.6 --random-cache-ratio 0.5 --prompt-token-ids",
    "sharegpt": "--dataset-name sharegpt --num-prompts 40 --seed 5 --dataset-path {}/sharegpt.json",
    "custom": "--dataset-name custom --num-prompts 20 --seed 9 --dataset-path {}/custom.jsonl --custom-output-len 5",
    "prefix_repetition": "--dataset-name prefix_repetition --num-prompts 20 --seed 11 --prefix-repetition-prefix-len 60"
    " --prefix-repetition-suffix-len 40 --prefix-repetition-num-prefixes 3 --prefix-repetition-output-len 9",
}
REPLY = (
    b'data: {"choices":[{"text":"a","index":0}]}\n\n'
    b'data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\ndata: [DONE]\n\n'
)


def server(seen):
    async def handle(reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if ": " in line)
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                status, reply = "404 Not Found", b""
                if head.startswith(b"POST /v1/"):
                    status, reply = "200 OK\r\ncontent-type: text/event-stream", REPLY
                    sent = json.loads(body)
                    seen.append((sent["prompt"], sent["max_tokens"], fields.get("x-request-id", "").split("-")[-1]))
                writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(reply)}\r\n\r\n".encode() + reply)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return handle


def golden(rows):
    text = ""
    for prompt, output, request in rows:
        prompt = prompt if isinstance(prompt, str) else ",".join(map(str, prompt))
        text += f"{prompt}\0{output} {request}\n"
    return {
        "count": len(rows),
        "output": sum(r[1] for r in rows),
        "hash": hashlib.sha256(text.encode()).hexdigest()[:16],
    }


async def main():
    client, tokenizer, testdata = sys.argv[1:]
    seen, found = [], {}
    listener = await asyncio.start_server(server(seen), "127.0.0.1", 0, limit=1 << 24)
    port = listener.sockets[0].getsockname()[1]
    for name, flags in RUNS.items():
        seen.clear()
        common = f"--base-url http://127.0.0.1:{port} --model m --max-concurrency 1 --disable-tqdm --tokenizer".split()
        args = ["bench", "serve", *common, tokenizer, *flags.format(testdata).split()]
        run = await asyncio.create_subprocess_exec(client, *args, stdout=asyncio.subprocess.DEVNULL)
        if await run.wait():
            sys.exit(f"{name}: the client failed")
        found[name] = golden(seen)
    with open(f"{testdata}/rust.json", "w") as f:
        origin = "_tools/bench/dataset_rust.py: vllm-rs of vllm 0.33.0, tokenizer of gpt-oss; hash: SHA-256 of prompt NUL output SP id LF"
        json.dump({"origin": origin, "sets": found}, f, indent=1)
        f.write("\n")


asyncio.run(main())
