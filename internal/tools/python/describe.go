package python

import (
	"fmt"
	"time"
)

// The models were trained on these texts: the published tool of the reference implementation has
// them word for word. Which one is told depends on what is true of the backend.

const purpose = `code in your chain of thought. The code will not be shown to the user. This tool should be used for internal reasoning, but not for code that is intended to be visible to the user (e.g. when creating plots, tables, or files).`

const statelessText = `Use this tool to execute STATELESS Python ` + purpose + `
When you send a message containing python code to python, it will be executed in a stateless docker container, and the stdout of that process will be returned to you. You have to use print statements to access the output.

IMPORTANT: Your python environment is not shared between calls. You will have to pass your entire code each time.`

const statefulText = `Use this tool to execute Python ` + purpose + `

When you send a message containing Python code to python, it will be executed in a stateful Jupyter notebook environment. python will respond with the output of the execution or time out after %s seconds.%s Internet access for this session is UNKNOWN. Depends on the cluster.`

const driveText = ` The drive at '/mnt/data' can be used to save and persist user files.`

// description returns the text for the model.
func description(kept keeping, limit time.Duration) string {
	drive := ""
	switch kept {
	case nothing:
		return statelessText
	case privateData:
		drive = driveText
	}
	seconds := fmt.Sprintf("%.1f", limit.Seconds())
	return fmt.Sprintf(statefulText, seconds, drive)
}
