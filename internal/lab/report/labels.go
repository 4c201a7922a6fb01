package report

// Shorten cuts names to a width in letters, in their middle: what tells settings apart mostly stands at an
// end. Different names whose cuts would look alike stay whole.
func Shorten(names []string, width int) []string {
	out := make([]string, len(names))
	whose := map[string]map[string]bool{} // names by their cut
	for i, name := range names {
		out[i] = cutMiddle(name, width)
		if whose[out[i]] == nil {
			whose[out[i]] = map[string]bool{}
		}
		whose[out[i]][name] = true
	}
	for i, name := range names {
		if len(whose[out[i]]) > 1 {
			out[i] = name
		}
	}
	return out
}

// cutMiddle takes letters out of the middle of a text that is too long.
func cutMiddle(text string, width int) string {
	all := []rune(text)
	if len(all) <= width {
		return text
	}
	head := (width - 1) / 2
	return string(all[:head]) + "…" + string(all[len(all)-(width-1-head):])
}
