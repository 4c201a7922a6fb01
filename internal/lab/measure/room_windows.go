package measure

// freeBytes does not ask: a write that fails says so in time, because the ledger takes no line then.
func freeBytes(string) int64 { return -1 }
