"""Runs LiteLLM, as published, against a live server, as docs/deploy.md has it; a line per check.

usage: litellm_python.py URL KEYED_URL KEY
URL is a server of ossian-tiny without a key, KEYED_URL one that wants KEY.
"""

import importlib.metadata
import os
import sys
import traceback

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # prices are not asked for over the network

import litellm

url, keyed_url, key = sys.argv[1:]
version = importlib.metadata.version("litellm")
failed = False


def ask(at=url, **more):
    return litellm.completion(
        model="hosted_vllm/ossian-tiny",
        api_base=at + "/v1",
        messages=[{"role": "user", "content": "12+30"}],
        temperature=0,
        num_retries=0,
        **more,
    )


def chat():
    answer = ask()
    assert answer.choices[0].message.content == "42", answer
    assert answer.choices[0].message.reasoning_content, answer
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens > 0, answer.usage


def stream():
    text = reasoning = ""
    for chunk in ask(stream=True):
        delta = chunk.choices[0].delta
        text += delta.content or ""
        reasoning += getattr(delta, "reasoning_content", None) or ""
    assert text == "42" and reasoning, (text, reasoning)


def authentication():
    assert ask(keyed_url, api_key=key).choices[0].message.content == "42"
    try:
        ask(keyed_url, api_key="wrong")
    except litellm.AuthenticationError:
        return
    raise AssertionError("a wrong key was taken")


for check in (chat, stream, authentication):
    try:
        check()
        print("litellm", version, check.__name__, "pass")
    except Exception:
        failed = True
        traceback.print_exc()
        print("litellm", version, check.__name__, "fail")
sys.exit(failed)
