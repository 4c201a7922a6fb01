// Package mend names the ways in which answers that break their format are mended. Who
// counts them need not know what models get wrong, nor in which format.
package mend

// A Rule names one way of mending what a model wrote, for counters and logs.
type Rule uint8

// String returns the label of the counter: S1 to S17 of harmony.md 9, or tag and
// call for markers and calls of other families.
func (r Rule) String() string { return labels[r] }

// What the model wrote → what is made of it. No text of a message is lost, but for what
// follows a call inside its tags; several rules may apply to one message.
const (
	_ Rule = iota // nothing is mended

	// Of harmony. A header is what stands before <|message|>, its content what stands behind.

	StrayEnd        // S1: an end where no message is → nothing; its ids are counted as hidden
	MissingStart    // S2: <|channel|> or <|message|> without <|start|> before → a header begins
	LooseText       // S3: text where <|start|> belongs → a header if its markers follow, else a message
	DoubledStart    // S4: <|start|> inside a header → the header begins anew
	SeveralChannels // S5: two <|channel|> in a header → the last known channel is the message's
	MisspeltChannel // S6: "finally", "comment", "thinking", … → the channel that is meant, if one is
	MissingChannel  // S7: a header without a channel → the answer; with a recipient, a call
	TextForHeader   // S7a: text instead of header and channel → the answer, or reasoning before more
	OddRecipient    // S8: several recipients, or the model itself → the first one; hidden if it is itself
	MissingMessage  // S9: a header ends without <|message|> → what follows its words is the content
	EndlessHeader   // S10: a header of more than maxHeader ids → the same
	StartInText     // S11: <|start|> in content → the message ends, another begins
	ChannelInText   // S12: <|channel|> in content → the message ends, a header begins
	StrayMarker     // S13: another control id where it means nothing → dropped
	CallEnd         // S14: a call that ends with something other than <|call|> → a call all the same
	NoCall          // S15: <|call|> behind text or reasoning → the message ends as with <|end|>
	HalfHeader      // S16: the output ends inside a header → the header is dropped
	TextAfterTurn   // S17: text behind the end of the answer (ignore_eos) → more of the answer

	// Of families with tags.

	StrayThinkTag // tag: <think> in reasoning, or </think> outside → dropped
	BrokenCall    // call: text between call tags that is no call → content; more behind a call → dropped
)

// labels are what users see: dashboards know them.
var labels = [...]string{
	StrayEnd: "S1", MissingStart: "S2", LooseText: "S3", DoubledStart: "S4", SeveralChannels: "S5",
	MisspeltChannel: "S6", MissingChannel: "S7", TextForHeader: "S7a", OddRecipient: "S8",
	MissingMessage: "S9", EndlessHeader: "S10", StartInText: "S11", ChannelInText: "S12",
	StrayMarker: "S13", CallEnd: "S14", NoCall: "S15", HalfHeader: "S16", TextAfterTurn: "S17",
	StrayThinkTag: "tag", BrokenCall: "call",
}
