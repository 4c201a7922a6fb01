"""python -m unittest, in this folder, with the packages of requirements.txt."""
import datetime
import itertools
import json
import pathlib
import random
import re
import tempfile
import unittest
import unittest.mock

import torch
import torch.nn.functional as F
from safetensors.torch import load_file

import arithmetic
import copied
import data
import export
import fast
import mxfp4
import pack
import tokenizer
import train
import words
from harmony import CONTROLS, branch_text, prompt_text
from model import Config, Experts, Model, Places, Segment, TreeAttention, cross_entropy, frequencies, losses, rotate

HERE = pathlib.Path(__file__).resolve().parent


def parts(vocabulary):
    """{part of a word: category} for all categories whose words are copied."""
    return {p: kind for kind, list_ in vocabulary.items() if kind != "object" for w in list_ for p in w.lower().replace("_", " ").split()}


class Generators(unittest.TestCase):
    def test_vocabularies_are_disjoint(self):
        train, heldout = parts(words.TRAIN), parts(words.HELDOUT)
        self.assertEqual({w: (train[w], heldout[w]) for w in train.keys() & heldout.keys()}, {})
        self.assertFalse(set(words.TRAIN["object"]) & set(words.HELDOUT["object"]))
        # Such words are tokens of their own after a space.
        self.assertFalse(train.keys() & (words.FUNCTION_WORDS | words.FRAME_WORDS))
        # A name that training has in a sentence gets a token of its own there, and then cannot be copied.
        self.assertFalse(heldout.keys() & {w.lower() for o in words.TRAIN["object"] for w in o.split() if w.istitle()})

    def test_numbers_are_disjoint(self):
        r = random.Random(1)
        for split in ("train", "heldout"):
            for op in ("+", "-", "max"):
                for _ in range(300):
                    a, b = arithmetic.numbers(r, split, op)
                    self.assertEqual(arithmetic.is_heldout(op, a, b), split == "heldout")

    def test_no_heldout_prompt_in_training(self):
        # Arithmetic is disjoint by numbers, short talk by questions.
        def asked(split):
            return {b.context[-1].text for g in itertools.islice(data.groups(1, split), 1000) for b in g.branches
                    if b.ability in ("about", "small", "tools", "recall")}
        self.assertFalse({t for t in asked("train") & asked("heldout") if not t.startswith("What is my ")})

    def test_pure(self):
        take = lambda start: [prompt_text(g) + str([branch_text(b) for b in g.branches]) for g in itertools.islice(data.groups(5, "train", start), 5)]
        self.assertEqual(take(10)[2:], take(12)[:3])

    def test_arithmetic(self):
        r = random.Random(2)
        for effort in data.EFFORTS:
            for _ in range(500):
                a, b = arithmetic.numbers(r, "train", "+")
                self.assertIn(f" -> {a + b:05d}", arithmetic.working("+", a, b, effort))
                text = arithmetic.working("-", a, b, effort)
                self.assertIn(f"-> {abs(a - b):05d}", text)
                self.assertEqual(text.endswith(" minus"), a < b)

    def test_effort_sets_the_length(self):
        for op in ("+", "-", "max"):
            low, medium, high = (len(arithmetic.working(op, 385, 1047, e)) for e in data.EFFORTS)
            self.assertLess(low, medium)
            self.assertLess(medium, high)

    def test_targets(self):
        """Calls name a declared tool, arguments are JSON, values occur in the request, and every turn ends properly."""
        for split in ("train", "heldout"):
            for g in itertools.islice(data.groups(2, split), 600):
                declared = re.findall(r"^type (\w+) =", prompt_text(g), re.M)
                self.assertEqual(len(declared), len(set(declared)))
                for b in g.branches:
                    self.check_target(b, declared)

    def check_target(self, b, declared):
        last = b.target[-1]
        self.assertEqual([m.end for m in b.target[:-1]], ["<|end|>"] * (len(b.target) - 1))
        self.assertEqual(last.end, "<|call|>" if last.to else "<|return|>")
        if last.to:
            self.assertIn(last.to.removeprefix("functions."), declared)
            for v in json.loads(last.text).values():
                if isinstance(v, str):
                    self.assertIn(v, b.context[-1].text)
        if b.ability == "json":
            self.assertIsInstance(json.loads(last.text), dict)

    def test_values_share_words(self):
        r = random.Random(5)
        said = [copied.texts(r, "train", 3) for _ in range(300)]
        self.assertGreater(sum(any(set(a.split()) & set(b.split()) for a, b in itertools.combinations(x, 2)) for x in said), 60)

    def test_every_ability_has_items(self):
        count = dict.fromkeys(data.ABILITIES, 0)
        for prompt, b in data.items(1, 20):
            count[b.ability] += 1
            self.assertTrue(prompt.endswith("<|start|>assistant"))
        self.assertEqual(set(count.values()), {20})


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.temporary.name)
        tokenizer.build().save(str(cls.dir / "tokenizer.json"))
        cls.encoder = tokenizer.Encoder(cls.dir / "tokenizer.json")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def test_size(self):
        self.assertLessEqual(self.encoder.tokenizer.get_vocab_size(), tokenizer.VOCAB)
        ids = [self.encoder.control[c] for c in CONTROLS]
        self.assertEqual(ids, list(range(ids[0], ids[0] + len(CONTROLS))))

    def test_round_trip(self):
        for split in ("train", "heldout"):
            for g in itertools.islice(data.groups(3, split), 300):
                for b in g.branches:
                    text = prompt_text(g) + "".join(branch_text(b))
                    ids = self.encoder(text)
                    self.assertEqual(self.encoder.tokenizer.decode(ids, skip_special_tokens=False), text)
                    self.assertEqual(ids, self.encoder.tokenizer.encode(text).ids)
                    self.assertLessEqual(len(ids), 1024)

    def test_copies_have_the_same_tokens(self):
        e = self.encoder
        for w in ("weather", "museum", "Paris", "Helsinki", "brolt"):
            plain = e(w)
            for before, after in ((" ", "."), ('{"', '"}'), ("functions.", "_x"), ("get_", " =")):
                self.assertEqual(e(before + w + after)[-len(e(after)) - len(plain):-len(e(after))], plain, (before, w))

    def test_capitals(self):
        """A capitalised word is divided as in lower case, is that but for its first token,
        and the model makes its first token of the lower-case one."""
        e = self.encoder
        lower = e.lower_case()
        for w in ("rename", "add", "compare", "subtract", "lottery", "devool", "write", "user", "x"):
            for before in ("", " ", "\n", "lottery"):
                small, big = e("_" + w)[len(e("_")):], e(before + w.capitalize())[len(e(before)):]
                self.assertEqual([lower[big[0]], *big[1:]], small, (before, w))
                self.assertNotEqual(big[0], small[0])
        model = Model(Config(vocab=len(lower), hidden=32, inner=32, layers=1), lower)
        for table in ("model.embed_tokens.weight", "lm_head.weight"):
            rows = export.tensors(model)[table].float()
            self.assertEqual(len(rows), len(lower))
            small, big, other, Other = (rows[e(w)[0]] for w in ("rename", "Rename", "weather", "Weather"))
            torch.testing.assert_close(big - small, Other - other, rtol=0, atol=0.02)
            self.assertGreater((small - other).norm(), 0.05)

    def test_digits_are_single(self):
        self.assertEqual(len(self.encoder("90417")), 5)

    def test_packing(self):
        """A branch in a batch has the logits that it has alone after its prefix."""
        ids, segments, at, target = pack.batch(data.groups(4, "train"), self.encoder, 1500, 512)
        self.assertGreaterEqual(len(ids), 1500)
        self.assertEqual([s.start for s in segments[1:]] + [len(ids)], [s.end for s in segments])
        model = Model(Config(vocab=self.encoder.tokenizer.get_vocab_size(), hidden=64, inner=32, layers=2, window=64)).eval()
        last = segments[-1]
        alone = torch.cat([ids[last.prefix_start:last.prefix_start + last.prefix], ids[last.start:]])
        with torch.no_grad():
            packed, _ = model(ids, segments)
            plain, _ = model(alone, [Segment(0, len(alone))])
        torch.testing.assert_close(packed[last.start:], plain[last.prefix:], rtol=1e-4, atol=1e-4)
        self.assertTrue(torch.equal(target, ids[at + 1]))

    def test_hardest(self):
        """Whole branches with the greatest losses, each group's prefix once, and no more
        than asked for."""
        taken = pack.take(data.groups(4, "train"), self.encoder, 4000, 512)
        places = [(g, b) for g, (_, branches) in enumerate(taken) for b in range(len(branches))]
        hard = set(random.Random(1).sample(places, 8))
        losses = [float(place in hard and i == 3) for place in places for i in range(sum(taken[place[0]][1][place[1]][2]))]
        kept = pack.hardest(taken, losses, 3000)
        for g, b in hard:
            self.assertTrue(any(prefix == taken[g][0] and taken[g][1][b] in branches for prefix, branches in kept))
        ids, segments, at, target = pack.lay(kept)
        self.assertGreater(len(ids), 2500)
        self.assertLessEqual(len(ids), 3000)
        self.assertEqual(len(segments), len(kept) + sum(len(branches) for _, branches in kept))
        self.assertTrue(torch.equal(target, ids[at + 1]))

    def test_slips(self):
        """Without what is not learned an answer is the answer, and no control token is unlearned."""
        slips = 0
        for g in itertools.islice(data.groups(4, "train"), 100):
            _, packed = pack.encode(g, self.encoder, 4096)
            for b, (given, produced, learned) in zip(g.branches, packed, strict=True):
                self.assertEqual(given, self.encoder(branch_text(b)[0]))
                self.assertEqual([t for t, l in zip(produced, learned, strict=True) if l], self.encoder(branch_text(b)[1]))
                self.assertFalse([t for t, l in zip(produced, learned) if not l and t >= self.encoder.control["<|startoftext|>"]])
                slips += not all(learned)
        self.assertGreater(slips, 20)

    def test_attention(self):
        """Values and gradients of the tree attention are those of plain attention
        with a mask over the whole batch and the sink as one more key."""
        torch.manual_seed(5)
        segments = [Segment(0, 7), Segment(7, 12, 0, 7), Segment(12, 15, 0, 7), Segment(15, 19)]
        n, heads, kv, dim, window = 19, 4, 2, 8, 6
        inputs = [torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((n, heads, dim), (n, kv, dim), (n, kv, dim), (heads,))]
        weight = torch.randn(n, heads, dim, dtype=torch.float64)
        place = torch.arange(12)
        near = (place.unsqueeze(1) >= place) & (place.unsqueeze(1) - place < window)
        (TreeAttention.apply(*inputs, segments, torch.zeros(12, 12, dtype=torch.float64).masked_fill_(~near, -float("inf"))) * weight).sum().backward()
        got = [i.grad.clone() for i in inputs]
        positions = torch.tensor([s.prefix + i for s in segments for i in range(s.length)])
        owner = torch.tensor([k for k, s in enumerate(segments) for _ in range(s.length)])
        prefix = torch.tensor([0 if s.prefix else k for k, s in enumerate(segments)])[owner]
        distance = positions.unsqueeze(1) - positions
        seen = ((owner.unsqueeze(1) == owner) | (prefix.unsqueeze(1) == owner)) & (distance >= 0) & (distance < window)
        q, k, v, sinks = (i.detach().clone().requires_grad_() for i in inputs)
        scores = torch.einsum("qhd,khd->hqk", q, k.repeat_interleave(2, 1)).masked_fill(~seen, -float("inf"))
        p = torch.cat([scores, sinks.view(-1, 1, 1).expand(-1, n, 1)], -1).softmax(-1)[..., :-1]
        (torch.einsum("hqk,khd->qhd", p, v.repeat_interleave(2, 1)) * weight).sum().backward()
        for name, mine, other in zip("qkvs", got, (q, k, v, sinks)):
            torch.testing.assert_close(mine, other.grad, msg=name)

    def test_stream_resumes(self):
        """A stream that starts where another was saved gives the same batches."""
        first = train.Stream(1, self.encoder, 900)
        first.batch(512)
        again = train.Stream(1, self.encoder, 900, first.next)
        for a, b in zip(first.batch(512), again.batch(512)):
            self.assertTrue(a == b if isinstance(a, list) else torch.equal(a, b))

    def test_follow(self):
        """Where a router would choose another expert it takes the one it is told to take."""
        layer = torch.nn.ModuleDict({"router": torch.nn.Linear(1, 3, bias=False)})
        layer["router"].weight.data = torch.tensor([[3.], [2], [1]])
        wanted = torch.tensor([[2.5, 2, 1], [2, 2.5, 1]])
        leads = export.follow(torch.nn.ModuleList([layer]), [wanted], 1)
        out = layer["router"](torch.ones(2, 1))
        self.assertTrue(torch.equal(out, torch.tensor([[3., 2, 1], [2, 2.5, 1]])))
        self.assertEqual(leads, [1])

    def test_export(self):
        """The stored tensors have the layout of models.md 1.4, transformers loads
        them, and its logits are those of the training model."""
        torch.manual_seed(3)
        c = Config(vocab=self.encoder.tokenizer.get_vocab_size(), hidden=64, inner=96, layers=4, window=64)
        model = Model(c)
        with torch.no_grad():
            for name, p in model.named_parameters():
                p.add_(torch.randn_like(p) * 0.05)
                if not name.endswith(("up", "down")):
                    p.copy_(p.bfloat16())
        out = self.dir / "checkpoint"
        export.write(model, self.dir, out)
        t = load_file(out / "model.safetensors")
        self.assertEqual(len(t), 19 * c.layers + 3)
        self.assertEqual(list(t["model.layers.0.mlp.experts.gate_up_proj_blocks"].shape), [8, 192, 2, 16])
        self.assertEqual(list(t["model.layers.0.mlp.experts.down_proj_scales"].shape), [8, 64, 3])
        far, leads = export.check(c, out, 300)
        self.assertLess(far, 1e-4)
        self.assertLess(max(leads, default=0), 1e-5)
        model.set_quantized(True)
        ids = torch.tensor(export.sample_ids(self.encoder, 100))
        with torch.no_grad():
            seen, _ = model(ids, [Segment(0, 100)])
            kept, _ = export.stored(c, t)(ids, [Segment(0, 100)])
        torch.testing.assert_close(seen, kept)  # training sees exactly what is stored

    def test_chat_template(self):
        """The template renders what the generators produce."""
        import transformers
        export.write(Model(Config(vocab=self.encoder.tokenizer.get_vocab_size(), hidden=32, inner=32, layers=1)), self.dir, self.dir / "template")
        tok = transformers.AutoTokenizer.from_pretrained(self.dir / "template")
        today = datetime.date.today().isoformat()
        checked = 0
        for g in itertools.islice(data.groups(6, "heldout"), 300):
            system, dev = g.prefix[0].text, g.prefix[1].text if len(g.prefix) > 1 else ""
            if "Current date" not in system or "# Response" in dev:
                continue
            options = {"model_identity": system.split("\n")[0], "reasoning_effort": re.search("Reasoning: (.*)", system)[1]}
            for b in g.branches:
                if b.kept:
                    continue
                messages, tools = as_messages(dev, b), as_tools(dev)
                got = tok.apply_chat_template(messages, tools=tools or None, add_generation_prompt=True, tokenize=False, **options)
                want = re.sub(r"(Current date: ).*", r"\g<1>" + today, prompt_text(g), count=1) + branch_text(b)[0]
                self.assertEqual(got, want)
                checked += 1
        self.assertGreater(checked, 500)


def as_messages(dev, b):
    out = []
    if dev.startswith("# Instructions\n\n"):
        out.append({"role": "system", "content": dev.removeprefix("# Instructions\n\n").split("\n\n# Tools")[0]})
    thinking = None
    for m in b.context:
        if m.channel == "analysis":
            thinking = m.text
        elif m.to.startswith("functions."):
            out.append({"role": "assistant", "content": "", "thinking": thinking,
                        "tool_calls": [{"type": "function", "function": {"name": m.to.removeprefix("functions."), "arguments": m.text}}]})
        elif m.to == "assistant":
            out.append({"role": "tool", "content": m.text})
        else:
            out.append({"role": m.role, "content": m.text})
    return out


def as_tools(dev):
    """The JSON schemas of a rendered tools section."""
    tools = []
    for note, name, body in re.findall(r"(?:^// (.*)\n)?^type (\w+) = \((?:_: \{\n((?:.*\n)*?)\})?\) => any;$", dev, re.M):
        schema = {"type": "object", "properties": {}, "required": []}
        for about, key, optional, kind in re.findall(r"(?:^// (.*)\n)?^(\w+)(\??): (.*),$", body, re.M):
            p = {"type": "string", "enum": re.findall(r'"(\w+)"', kind)} if '"' in kind else {"type": kind}
            if about:
                p["description"] = about
            schema["properties"][key] = p
            if not optional:
                schema["required"].append(key)
        tools.append({"type": "function", "function": {"name": name, "description": note, "parameters": schema if schema["properties"] else None}})
    return tools


@unittest.skipUnless(fast.LIBRARY, "needs g++ and a processor with AVX-512 and bfloat16")
class Fast(unittest.TestCase):
    lengths = (70, 90, 3, 41, 150, 1, 130)
    prefixes = ((0, 0), (0, 70), (0, 70), (0, 70), (0, 0), (204, 150), (204, 150))
    ends = list(itertools.accumulate(lengths))
    segments = [Segment(end - n, end, *prefix) for n, end, prefix in zip(lengths, ends, prefixes)]

    def gradients(self, model, library):
        torch.manual_seed(7)
        segments, ends = self.segments, self.ends
        ids, at = torch.randint(50, (ends[-1],)), torch.arange(20, ends[-1], 3)
        target = torch.randint(50, at.shape)
        with unittest.mock.patch.object(fast, "LIBRARY", library):
            model.zero_grad()
            logits, balance = model(ids, segments, at)
            torch.testing.assert_close(losses(logits.detach().clone(), target).mean(), F.cross_entropy(logits, target), rtol=1e-5, atol=0)
            loss = cross_entropy(logits, target) + balance
            loss.backward()
        return loss.item(), {name: p.grad.clone() for name, p in model.named_parameters()}

    def test_gradients(self):
        """Loss and gradients are those of PyTorch, to some per cent where products are in
        bfloat16. Every token has both experts: near ties would choose others then."""
        torch.manual_seed(6)
        model = Model(Config(vocab=50, hidden=64, layers=4, inner=96, window=24, experts=2))
        with torch.no_grad():
            for p in model.parameters():
                p.add_(torch.randn_like(p) * 0.1)
        want, wanted = self.gradients(model, None)
        for half, most in ((False, 1e-4), (True, 0.05)):
            model.set_half(half)
            loss, got = self.gradients(model, fast.LIBRARY)
            self.assertLess(abs(loss / want - 1), most)
            for name, g in wanted.items():
                self.assertLess((got[name] - g).norm(), most * g.norm() + 1e-6, name)

    def test_attention(self):
        """In bfloat16, with the turn and the scale."""
        for heads, kv, dim, window in ((4, 2, 64, 24), (8, 4, 32, 24), (4, 2, 64, 4096), (2, 2, 32, 128)):
            torch.manual_seed(8)
            n, (f, factor) = self.ends[-1], frequencies(Config(vocab=1, head_dim=dim))
            angle = torch.arange(300).unsqueeze(1) * f
            places = Places(self.segments, (angle.cos() * factor).float(), (angle.sin() * factor).float())
            given = [torch.randn(n, heads, dim), torch.randn(n, kv, dim), torch.randn(n, kv, dim), torch.randn(heads)]
            weight = torch.randn(n, heads, dim)

            def plain(q, k, v, sinks):
                q, k = (rotate(x, places.cos.unsqueeze(1), places.sin.unsqueeze(1)) for x in (q, k))
                return TreeAttention.apply(q * dim ** -0.5, k, v, sinks, *places.within(window))

            def quick(*inputs):
                return fast.TreeAttention.apply(*inputs, places.cos, places.sin, places.table, window)

            def gradients(f):
                inputs = [t.clone().requires_grad_() for t in given]
                y = f(*inputs)
                (y * weight).sum().backward()
                return [y.detach()] + [t.grad for t in inputs]

            for got, want in zip(gradients(quick), gradients(plain), strict=True):
                self.assertLess((got - want).norm() / want.norm(), 0.01)

    def test_half(self):
        """What is multiplied in bfloat16: a layer's products and its experts."""
        torch.manual_seed(6)
        c = Config(vocab=50, hidden=64, inner=96)
        experts = Experts(c)
        experts.half = True
        x, ids = torch.randn(300, 64), torch.rand(300, 7).argsort(1)[:, :2]  # nothing for the last expert
        given = [x, torch.rand(300, 2), torch.randn(8, 192, 64) / 4, torch.randn(8, 192), torch.randn(8, 64, 96) / 4, torch.randn(8, 64)]
        weight = torch.randn(300, 64)

        def gradients(f):
            inputs = [t.clone().requires_grad_() for t in given]
            y = f(inputs[0], ids, *inputs[1:], 1.702, 7.0)
            (y * weight).sum().backward()
            return [y.detach()] + [t.grad for t in inputs]

        for got, want in zip(gradients(fast.Experts.apply), gradients(experts.mixed), strict=True):
            self.assertLess((got - want).norm() / want.norm(), 0.01)

        def gradients(f):
            inputs = [t.clone().requires_grad_() for t in (x, given[2][0], given[3][0])]
            (f(*inputs) * given[3][1]).sum().backward()
            return [t.grad for t in inputs]

        for got, want in zip(gradients(fast.Linear.apply), gradients(F.linear), strict=True):
            self.assertLess((got - want).norm() / want.norm(), 0.01)

    def test_mxfp4(self):
        torch.manual_seed(2)
        w = torch.randn(50, 40, 96) * torch.logspace(-6, 6, 2000).view(50, 40, 1)
        w[3, 5:9] = 0
        want, exponent = mxfp4.rounded(w)
        self.assertTrue(torch.equal(fast.rounded(w), (want * torch.exp2(exponent)).view_as(w)))


class Numbers(unittest.TestCase):
    def test_mxfp4(self):
        torch.manual_seed(1)
        w = torch.randn(3, 8, 96) * torch.logspace(-6, 6, 24).view(3, 8, 1)
        blocks, scales = mxfp4.quantize(w)
        x = mxfp4.dequantize(blocks, scales)
        self.assertEqual((blocks.shape, scales.shape), ((3, 8, 3, 16), (3, 8, 3)))
        self.assertLess(((x - w).norm(dim=-1) / w.norm(dim=-1)).max().item(), 0.2)
        torch.testing.assert_close(mxfp4.dequantize(*mxfp4.quantize(x)), x, rtol=0, atol=0)
        # The even element lies in the low half; code 1 is 0.5, code 15 is -6.
        self.assertEqual(mxfp4.dequantize(torch.tensor([[0xF1] * 16], dtype=torch.uint8), torch.tensor([128], dtype=torch.uint8))[:2].tolist(), [1.0, -12.0])

    def test_frequencies(self):
        """models.md 1.3, check values of gpt-oss."""
        f, m = frequencies(Config(vocab=1, head_dim=64, yarn_factor=32.0, yarn_original=4096))
        self.assertAlmostEqual(m, 1.3465735902799727)
        for i, want in ((1, 6.890443059e-01), (9, 3.170569618e-02), (15, 1.052602101e-03), (31, 3.023511428e-07)):
            self.assertAlmostEqual(f[i].item() / want, 1, places=8)


if __name__ == "__main__":
    unittest.main()
