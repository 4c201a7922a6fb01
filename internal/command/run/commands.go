package run

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"ossian/internal/nearest"
)

// A chatCommand is what a line that begins with a slash does in a chat. What it returns is
// said to the person; the chat goes on, but for errLeave.
type chatCommand struct {
	name  string   // without the slash
	usage string   // of what follows the name; "" = nothing does
	help  string   // what it does
	other []string // other tools' names of it
	do    func(a *answerer, rest string) error
}

// chatCommands are the commands, in the order of /help.
func chatCommands() []chatCommand {
	return []chatCommand{
		{"help", "", "list commands and keys", []string{"?", "h", "commands"}, (*answerer).help},
		{"set", "NAME VALUE", "change a setting; /set lists them", nil, (*answerer).set},
		{"show", "info | parameters | system | template | messages", "tell about the model and the chat", nil, (*answerer).show},
		{"clear", "", "forget what was said; settings stay", []string{"reset", "new"}, (*answerer).clear},
		{"save", "FILE", "write what was said, with the settings, as JSON", nil, (*answerer).save},
		{"overwrite", "FILE", "the same, in the place of another chat", nil, (*answerer).overwrite},
		{"load", "FILE", "go on with what /save has written", nil, (*answerer).load},
		{"bye", "", "end the chat", []string{"exit", "quit", "q"}, func(*answerer, string) error { return errLeave }},
	}
}

// obey does what a command says.
func (a *answerer) obey(name, rest string) error {
	var known []string
	for _, command := range chatCommands() {
		known = append(known, "/"+command.name)
		answers := command.name == name
		for _, other := range command.other {
			answers = answers || other == name
		}
		if !answers {
			continue
		}
		if command.usage == "" && rest != "" {
			return fmt.Errorf("/%s takes nothing behind it, found %.60q", command.name, rest)
		}
		return command.do(a, rest)
	}
	return fmt.Errorf(`there is no command /%.40s%s /? lists them; a message that begins with a slash can be written between """`,
		name, orElse(nearest.Hint("/"+name, known), ";"))
}

// orElse returns text, or what stands in its place where it is empty.
func orElse(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// help lists the commands, the ways to write several lines, and the keys.
func (a *answerer) help(string) error {
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	for _, command := range chatCommands() {
		fmt.Fprintf(table, "/%s\t%s\n", strings.TrimSpace(command.name+" "+command.usage), command.help)
	}
	fmt.Fprint(table, `
""" … """	a message of several lines
\ at the end of a line	the message goes on in the next one

Enter, Alt-Enter	send the message; begin another line
Up, Down	what was typed before
Ctrl-A, Ctrl-E, Home, End	to the beginning, to the end of the line
Alt-B, Alt-F, Ctrl-Left, Ctrl-Right	a word back, a word on
Ctrl-U, Ctrl-K, Ctrl-W	delete to the beginning, to the end, a word
Ctrl-L	clear the screen
Ctrl-C	stop the answer, or clear what is typed
Ctrl-D	end the chat
`)
	return table.Flush()
}

// clear forgets what was said.
func (a *answerer) clear(string) error {
	a.talk.restart(a.o.system, nil)
	a.say("What was said is forgotten.")
	return nil
}

// show tells about the model and the chat.
func (a *answerer) show(what string) error {
	shown := map[string]func() error{"info": a.showInfo, "parameters": a.showSettings, "system": a.showSystem, "template": a.showTemplate, "messages": a.showMessages}
	names := []string{"info", "parameters", "system", "template", "messages"}
	show := shown[strings.ToLower(what)]
	switch {
	case what == "":
		return fmt.Errorf("/show one of: %s", strings.Join(names, ", "))
	case show == nil:
		return fmt.Errorf("/show %.40q: one of %s expected%s", what, strings.Join(names, ", "), nearest.Hint(strings.ToLower(what), names))
	}
	return show()
}

// showInfo says what the model is, in short: ossian inspect says more.
func (a *answerer) showInfo() error {
	spec := a.checkpoint.Spec
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "model\t%s (%s, %s)\n", spec.Name, spec.Family, a.checkpoint.Format)
	fmt.Fprintf(table, "context\t%d tokens, %d of them used\n", a.seq.info.MaxLen, len(a.seq.cached))
	fmt.Fprintf(table, "vocabulary\t%d tokens\n", spec.Vocab)
	fmt.Fprintf(table, "device\t%s\n", a.seq.info.Name)
	fmt.Fprintf(table, "more\tossian inspect %s\n", spec.Name)
	return table.Flush()
}

// showSystem shows the system message.
func (a *answerer) showSystem() error {
	a.say("%s", orElse(a.o.system, "There is no system message; /set system TEXT makes one."))
	return nil
}

// showTemplate shows the text that turns what is said into what the model reads.
func (a *answerer) showTemplate() error {
	if a.checkpoint.Spec.Family == "gpt-oss" {
		a.say("gpt-oss reads and writes one fixed format, harmony, which no template writes here.")
		return nil
	}
	a.say("%s", a.checkpoint.Template)
	return nil
}

// showMessages shows what was said so far.
func (a *answerer) showMessages() error {
	said := a.talk.said()
	if len(said) == 0 {
		a.say("Nothing was said so far.")
	}
	for i := range said {
		a.say("%s: %s", roleNames[said[i].Role], strings.Join(said[i].Parts, "\n"))
	}
	return nil
}
