package lab

import "strings"

// difference lists lines that are only in before, with a minus, and only in after, with a plus, in
// their order: plans are short, so the table of the longest common subsequence is as well.
func difference(before, after string) string {
	old, now := strings.Split(strings.TrimSuffix(before, "\n"), "\n"), strings.Split(strings.TrimSuffix(after, "\n"), "\n")
	common := make([][]int, len(old)+1) // common[i][j]: lines that old[i:] and now[j:] share in order
	for i := range common {
		common[i] = make([]int, len(now)+1)
	}
	for i := len(old) - 1; i >= 0; i-- {
		for j := len(now) - 1; j >= 0; j-- {
			if old[i] == now[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var out strings.Builder
	i, j := 0, 0
	for i < len(old) || j < len(now) {
		switch {
		case i < len(old) && j < len(now) && old[i] == now[j]:
			i, j = i+1, j+1
		case j == len(now) || (i < len(old) && common[i+1][j] >= common[i][j+1]):
			out.WriteString("- " + old[i] + "\n")
			i++
		default:
			out.WriteString("+ " + now[j] + "\n")
			j++
		}
	}
	return out.String()
}
