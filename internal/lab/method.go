package lab

// method states the rules of a campaign in words, for the report.
func method() map[string]string {
	return map[string]string{
		"comparison":   "log ratio to the baseline of the same block; a block is every setting that is still in the race once, in random order, on prompts that no other block has",
		"interval":     "Student's t with critical values that hold at whichever block one stops; Holm over candidates",
		"error rates":  "5 % that any option without effect is kept: 4.5 % for options alone, 0.5 % for combinations of options that are not kept alone",
		"indifference": "1 %: smaller gains are not kept",
		"failures":     "a trial that fails is repeated once; what fails twice is unstable",
		"smoke":        ruleSmoke,
		"equality":     "greedy outputs against the baseline's by token ids, else by text; a near tie is a first difference of at most 0.1 nat",
		"bounds":       ruleService,
		"budget":       "seconds of trials and of the starts that they needed",
	}
}
