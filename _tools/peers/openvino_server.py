"""Serves a model of OpenVINO GenAI behind POST /v1/completions, so that one client measures it as it
measures other servers: prompts of token ids, streamed, one event a token. Also does what has no server:
--prompt N and --decode N print the seconds of one prompt, and of tokens behind a short one, as JSON.

One thread steps the pipeline and writes what came to the sockets itself: a thread for each stream would
take from two processors what is to be measured. Requests are parsed by threads that end with them.
"""

import argparse
import json
import queue
import random
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy
import openvino
import openvino_genai as genai


def pipeline(args):
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = args.cache_size
    scheduler.max_num_seqs = args.max_num_seqs
    scheduler.enable_prefix_caching = False  # prompts share nothing here
    if args.max_num_batched_tokens:
        scheduler.max_num_batched_tokens = args.max_num_batched_tokens
    properties = {"INFERENCE_NUM_THREADS": args.threads}
    return genai.ContinuousBatchingPipeline(args.model, scheduler, "CPU", properties)


def settings(tokens):
    config = genai.GenerationConfig()
    config.max_new_tokens, config.ignore_eos, config.do_sample = tokens, True, False
    return config


def ids(prompt):
    return openvino.Tensor(numpy.array([prompt], dtype=numpy.int64))


class Stream:
    def __init__(self, handler, body):
        self.handler, self.prompt, self.tokens = handler, body["prompt"], int(body.get("max_tokens", 16))
        self.usage = (body.get("stream_options") or {}).get("include_usage", False)
        self.sent, self.done, self.handle, self.gone = 0, threading.Event(), None, False

    def write(self, events):
        try:
            self.handler.wfile.write(events.encode())
        except OSError:  # the client has left
            self.gone = True
            self.handle.drop()
            self.done.set()

    def event(self, choices, **more):
        return "data: " + json.dumps({"id": "cmpl-0", "object": "text_completion", "model": "bench", "choices": choices, **more}) + "\n\n"

    def forward(self, outputs):
        events = ""
        for output in outputs.values():
            for token in output.generated_ids:
                self.sent += 1
                finish = "length" if self.sent >= self.tokens else None
                events += self.event([{"index": 0, "text": f" {token}", "token_ids": [token], "finish_reason": finish}])
        if self.sent >= self.tokens:
            if self.usage:
                count = len(self.prompt)
                events += self.event([], usage={"prompt_tokens": count, "completion_tokens": self.sent, "total_tokens": count + self.sent})
            events += "data: [DONE]\n\n"
        self.write(events)
        if self.sent >= self.tokens:
            self.done.set()


def run(pipe, arrivals):
    running, number = [], 0
    while True:
        while not running or not arrivals.empty():
            stream = arrivals.get()
            number += 1
            stream.handle = pipe.add_request(number, ids(stream.prompt), settings(stream.tokens))
            running.append(stream)
        pipe.step()
        for stream in running:
            if not stream.gone and stream.handle.can_read():
                stream.forward(stream.handle.read())
        running = [s for s in running if not s.done.is_set()]


def serve(pipe, args):
    arrivals = queue.Queue()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def reply(self, status, kind, body=b""):
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if kind != "text/event-stream":
                self.send_header("Content-Length", str(len(body)))
            else:
                self.send_header("Connection", "close")  # which ends the stream
                self.close_connection = True
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            if self.path == "/v1/models":
                self.reply(200, "application/json", json.dumps({"object": "list", "data": [{"id": args.name, "object": "model"}]}).encode())
            elif self.path == "/health":
                self.reply(200, "text/plain")
            else:
                self.reply(404, "text/plain")

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/completions" or not body.get("stream") or not all(isinstance(i, int) for i in body["prompt"]):
                self.reply(400, "text/plain", b"only streamed completions of token ids are served here")
                return
            self.reply(200, "text/event-stream")
            stream = Stream(self, body)
            arrivals.put(stream)
            stream.done.wait()

    class Server(ThreadingHTTPServer):
        request_queue_size = 256

    server = Server(("127.0.0.1", args.port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    run(pipe, arrivals)


def measure(pipe, args):
    """The first of a run warms up: it has the length of the others, since kernels are made for shapes."""
    draw = random.Random(1)

    def once(prompt, tokens):
        began, first, last = time.perf_counter(), None, None
        handle = pipe.add_request(once.number, ids([draw.randrange(1000, 100000) for _ in range(prompt)]), settings(tokens))
        once.number += 1
        while pipe.has_non_finished_requests():
            pipe.step()
            if handle.can_read() and handle.read():
                last = time.perf_counter()
                first = first or last
        return first - began, last - first

    once.number = 1
    length, tokens = args.prompt or args.lead, (args.decode or 0) + 1
    runs = [once(length, tokens) for _ in range(args.repeat + 1)][1:]
    print(json.dumps({"prefill": [length / first for first, _ in runs], "decode": [args.decode / rest for _, rest in runs] if args.decode else []}))


def main():
    parse = argparse.ArgumentParser(description=__doc__)
    parse.add_argument("model", help="folder that optimum-cli export openvino wrote")
    parse.add_argument("--port", type=int, default=8000)
    parse.add_argument("--name", default="bench")
    parse.add_argument("--threads", type=int, default=2)
    parse.add_argument("--cache-size", type=int, default=4, help="GB of keys and values")
    parse.add_argument("--max-num-seqs", type=int, default=256)
    parse.add_argument("--max-num-batched-tokens", type=int, default=0, help="0 = OpenVINO's own choice")
    parse.add_argument("--prompt", type=int, default=0)
    parse.add_argument("--decode", type=int, default=0)
    parse.add_argument("--lead", type=int, default=16, help="tokens in front of those that are decoded")
    parse.add_argument("--repeat", type=int, default=3)
    args = parse.parse_args()
    pipe = pipeline(args)
    if args.prompt or args.decode:
        measure(pipe, args)
    else:
        serve(pipe, args)


if __name__ == "__main__":
    main()
