// Command peers lets several clients measure the same servers, in turns, and prints what
// each says, as Markdown. Run it through peers.sh, which makes what it needs.
//
// Of the scripted server it knows the truth and prints each client's error; of that and of
// a live one it prints every metric that the clients report.
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ossian/internal/bench/scripted"
)

// A config is what is measured, and how.
type config struct {
	dir           string
	model         string // of the live server
	tokenizer     string // folder
	url           string // of a live server that runs already
	streams, live []int  // requests of each part
	rounds        []int  // of each part of streams, and of live
	tokens        []int  // of the streams of each
	liveTokens    int
	gap           time.Duration
	step          bool
	peers         []peer
}

func main() {
	var c config
	streams := flag.String("streams", "1,100,1000", "streams at once of the scripted server")
	live := flag.String("live", "1,100,1000", "requests to the live server; empty = none")
	rounds := flag.String("rounds", "3,5,3", "how often the clients take turns in each of these; the last number holds for the rest")
	tokens := flag.String("tokens", "2000,500,500", "of the scripted streams in each; the last number holds for the rest")
	names := flag.String("clients", "ossian,vllm,vllm-rs", "which to run")
	limit := flag.Duration("limit", time.Hour, "give up after this time")
	flag.StringVar(&c.dir, "dir", "", "where peers.sh put the clients")
	flag.IntVar(&c.liveTokens, "live-tokens", 64, "of each answer of the live server")
	flag.DurationVar(&c.gap, "gap", 10*time.Millisecond, "between the tokens of a scripted stream")
	flag.StringVar(&c.url, "url", "", "`URL` of a live server that runs already; else ossian serves its built-in model")
	flag.StringVar(&c.model, "model", "ossian-tiny", "that it serves")
	flag.StringVar(&c.tokenizer, "tokenizer", "internal/tiny/ossian-tiny", "`FOLDER` with the tokenizer of that model")
	flag.BoolVar(&c.step, "step", false, "wait for a line on standard input before each round, for machines with other work in between")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, *limit)
	defer cancel()
	err := c.fill(map[string]string{"-streams": *streams, "-live": *live, "-rounds": *rounds, "-tokens": *tokens}, *names)
	if err == nil {
		err = c.compare(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func (c *config) fill(lists map[string]string, names string) error {
	for name, into := range map[string]*[]int{"-streams": &c.streams, "-live": &c.live, "-rounds": &c.rounds, "-tokens": &c.tokens} {
		for _, s := range strings.FieldsFunc(lists[name], func(r rune) bool { return r == ',' }) {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				return fmt.Errorf("%s %s: expected numbers from 1", name, lists[name])
			}
			*into = append(*into, n)
		}
	}
	if len(c.rounds) == 0 || len(c.tokens) == 0 {
		return errors.New("-rounds and -tokens: expected one number at least")
	}
	known := map[string][]string{
		"ossian":  {filepath.Join(c.dir, "ossian"), "bench", "serve"},
		"vllm":    {filepath.Join(c.dir, "venv/bin/python"), "_tools/bench/peers/vllm_client.py", filepath.Join(c.dir, "wheel")},
		"vllm-rs": {filepath.Join(c.dir, "wheel/vllm/vllm-rs"), "bench", "serve"},
	}
	for _, name := range strings.Split(names, ",") {
		command, ok := known[name]
		if !ok {
			return fmt.Errorf("-clients %s: expected some of ossian, vllm, vllm-rs", names)
		}
		c.peers = append(c.peers, peer{name, command})
	}
	return nil
}

// nth returns element i of a list, whose last holds for the rest.
func nth(list []int, i int) int { return list[min(i, len(list)-1)] }

// A part is a server under a number of requests, and what each client said in each round.
type part struct {
	target
	requests int
	runs     [][]*run // by client, by round
}

// A target is a server with what is asked of it.
type target struct {
	name, url, model string
	tokens           int
	scripted         bool
}

// compare starts the servers, has the clients measure them in turns and prints the tables.
func (c *config) compare(ctx context.Context) error {
	play, stop, err := c.start(ctx, "scripted", "bench", "scripted", "--port", "0", "--gap", c.gap.String())
	if err != nil {
		return err
	}
	defer stop()
	live := c.url
	if live == "" && len(c.live) > 0 {
		url, stop, err := c.start(ctx, "serve", "serve", "--port", "0", "--no-enable-prefix-caching")
		if err != nil {
			return err
		}
		defer stop()
		live = url
	}
	var parts []*part
	for i, n := range c.streams {
		p := &part{target: target{"scripted", play, "scripted", nth(c.tokens, i), true}, requests: n}
		if err := c.measure(ctx, p, nth(c.rounds, i)); err != nil {
			return err
		}
		parts = append(parts, p)
	}
	for i, n := range c.live {
		p := &part{target: target{"live", live, c.model, c.liveTokens, false}, requests: n}
		if err := c.measure(ctx, p, nth(c.rounds, i)); err != nil {
			return err
		}
		parts = append(parts, p)
	}
	return c.print(os.Stdout, parts)
}

var stdin = bufio.NewReader(os.Stdin)

// measure fills p: in each round every client has its turn.
func (c *config) measure(ctx context.Context, p *part, rounds int) error {
	p.runs = make([][]*run, len(c.peers))
	for round := range rounds {
		fmt.Fprintf(os.Stderr, "%s server, %d requests, round %d of %d\n", p.name, p.requests, round+1, rounds)
		if c.step {
			if _, err := stdin.ReadString('\n'); err != nil {
				return fmt.Errorf("-step: %w", err)
			}
		}
		for i := range c.peers {
			r, err := c.turn(ctx, &c.peers[i], p)
			if err != nil {
				return err
			}
			p.runs[i] = append(p.runs[i], r)
		}
	}
	return nil
}

// fewEvents drown in what starting a client takes, give or take.
const fewEvents = 1000

// turn lets a client measure p, and before that the same requests with answers of one
// token: what these take is not the cost of events.
func (c *config) turn(ctx context.Context, client *peer, p *part) (*run, error) {
	one := p.target
	one.tokens = 1
	base, err := c.run(ctx, client, &one, p.requests)
	if err != nil {
		return nil, err
	}
	if p.scripted {
		if err := scripted.Forget(ctx, p.url); err != nil {
			return nil, err
		}
	}
	r, err := c.run(ctx, client, &p.target, p.requests)
	if err != nil {
		return nil, err
	}
	r.perEvent = math.NaN()
	if n := r.events(); n >= fewEvents {
		r.perEvent = (r.cpu - base.cpu).Seconds() * 1e6 / float64(n)
	}
	if p.scripted {
		log, err := scripted.Fetch(ctx, p.url)
		if err != nil {
			return nil, err
		}
		r.judge(log)
	}
	return r, nil
}
