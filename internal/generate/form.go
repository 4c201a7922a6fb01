package generate

import (
	"cmp"
	"encoding/json"
	"slices"

	"ossian/internal/chat"
	"ossian/internal/grammar"
	"ossian/internal/wire"
)

// Places are where a request has the form of the answer and the parameters of its
// tools: errors and x-ossian-ignored name them.
type Places struct {
	Answer string
	Strict bool // the answer's schema is to be followed in every word
	Tool   func(i int) string
	Tools  string // the field of the tools, "" = tools
	Choice string // that of the choice among them, "" = tool_choice
}

// Form returns what the answers to a request are held to, and where it says so; nil =
// nothing.
func Form(asked *wire.Sampling) (src *grammar.Source, at Places, err error) {
	const tags = "output with structural tags is not supported; json_schema, regex, choice and grammar are"
	if format := asked.ResponseFormat; format != nil {
		switch format.Type {
		case "json_object":
			return &grammar.Source{Kind: grammar.Object}, Places{Answer: "response_format"}, nil
		case "json_schema":
			at.Answer, at.Strict = cmp.Or(format.Place, "response_format.json_schema.schema"), format.JSONSchema.Strict
			return &grammar.Source{Text: string(format.JSONSchema.Schema)}, at, nil
		case "structural_tag":
			return nil, at, wire.Unsupported("response_format.type", tags)
		}
	}
	structured := asked.Structured
	if structured == nil {
		return nil, at, nil
	}
	src, at.Answer = &grammar.Source{}, "structured_outputs."
	if structured.Whitespace != nil {
		src.Space = *structured.Whitespace
	}
	switch {
	case structured.JSONObject:
		src.Kind, at.Answer = grammar.Object, at.Answer+"json_object"
	case structured.Regex != nil:
		src.Kind, src.Text, at.Answer = grammar.Regex, *structured.Regex, at.Answer+"regex"
	case structured.Choice != nil:
		src.Kind, src.Choices, at.Answer = grammar.Choice, structured.Choice, at.Answer+"choice"
	case structured.Grammar != nil:
		src.Kind, src.Text, at.Answer = grammar.EBNF, *structured.Grammar, at.Answer+"grammar"
	case structured.Tag != nil:
		return nil, at, wire.Unsupported(at.Answer+"structural_tag", tags)
	default:
		src.Text, at.Answer = string(structured.JSON), at.Answer+"json"
		if structured.JSON[0] == '"' { // a string that holds the schema
			if err := json.Unmarshal(structured.JSON, &src.Text); err != nil {
				return nil, at, wire.Invalid(at.Answer, err.Error())
			}
		}
	}
	at.Answer = cmp.Or(structured.Place, at.Answer)
	return src, at, nil
}

// ResponseFormat returns the schema that models are told of, nil without one. One in the
// form of another server has no name, and is not told there either.
func ResponseFormat(asked *wire.Sampling) *chat.ResponseFormat {
	format := asked.ResponseFormat
	if format == nil || format.Type != "json_schema" || format.Place != "" {
		return nil
	}
	return &chat.ResponseFormat{Name: format.JSONSchema.Name, Description: format.JSONSchema.Description, Schema: format.JSONSchema.Schema}
}

// emptyObject is the form of the arguments of a tool without parameters.
const emptyObject = `{"type":"object","properties":{},"additionalProperties":false}`

// syntaxes are those of the grammars of custom tools.
var syntaxes = map[string]grammar.Kind{"lark": grammar.Lark, "regex": grammar.Regex}

// Tools returns tools as models are told of them.
func Tools(tools []wire.Tool) (all []chat.Tool) {
	for i := range tools {
		all = append(all, chatTool(&tools[i]))
	}
	return all
}

func chatTool(tool *wire.Tool) chat.Tool {
	told := chat.Tool{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters, JSON: tool.Raw}
	switch format := tool.Format; {
	case tool.Type != "custom":
	case format == nil:
		told.Input = chat.Text
	default:
		told.Input = chat.Formed
		if told.Description != "" {
			told.Description += "\n\n"
		}
		name := "Lark grammar"
		if format.Syntax == "regex" {
			name = "regular expression"
		}
		told.Description += "The input has to match this " + name + ":\n" + format.Definition
	}
	return told
}

// ToolPlace returns where, within a tool, the form of what it takes is.
func ToolPlace(tool *wire.Tool) string {
	if tool.Format != nil {
		return tool.Format.Place
	}
	return "parameters"
}

// Rules returns what answers are held to: a form, which may be nil, tools, which may be
// called as the tool choice says, and a limit of reasoning in tokens, nil = none.
func Rules(answer *grammar.Source, tools []wire.Tool, choice *wire.ToolChoice, parallel *bool, thinking *int64) *chat.Rules {
	rules := &chat.Rules{Answer: answer}
	if thinking != nil {
		tokens := int(*thinking)
		rules.Thinking = &tokens
	}
	if choice.Mode == "none" {
		return rules
	}
	rules.MustCall = MustCall(choice)
	if choice.Mode == "named" {
		rules.Builtins = []string{} // it is a function: nothing else may be called
	}
	rules.OneCall = choice.Mode == "named" || (parallel != nil && !*parallel)
	for i := range tools {
		rules.Tools = append(rules.Tools, toolRule(&tools[i], choice, rules.MustCall))
	}
	return rules
}

// MustCall reports whether an answer has to end with a call.
func MustCall(choice *wire.ToolChoice) bool {
	return choice.Mode == "named" || choice.Mode == "required"
}

// toolRule returns how a tool may be called: its arguments follow the schema if it is
// strict or a call is forced; otherwise any object will do.
func toolRule(tool *wire.Tool, choice *wire.ToolChoice, forced bool) chat.ToolRule {
	another := choice.Mode == "named" && tool.Name != choice.Name
	excluded := choice.Allowed != nil && !slices.Contains(choice.Allowed, tool.Name)
	rule := chat.ToolRule{Strict: tool.Strict, Arguments: grammar.Source{Kind: grammar.Object}, Hidden: another || excluded}
	switch {
	case tool.Format != nil:
		rule.Arguments = grammar.Source{Kind: syntaxes[tool.Format.Syntax], Text: tool.Format.Definition}
	case tool.Type == "custom": // any text
	case !forced && !tool.Strict:
	case tool.Parameters == nil:
		rule.Arguments = grammar.Source{Text: emptyObject}
	default: // as the format holds to it, so that what is left out is told of the same schema
		rule.Arguments = chat.ObjectForm(grammar.Source{Text: string(tool.Parameters)})
	}
	return rule
}
