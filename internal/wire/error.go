package wire

import (
	"strconv"
	"strings"
)

// An Error is what a caller is told: the body of every failed request and of an
// error event in a stream. Which HTTP status belongs to it is the server's table.
type Error struct {
	Message string
	Type    string // one of the Type constants
	Param   string // dotted path of the field at fault, messages[2].content; "" = null
	Code    string // one of the Code constants; "" = null
	Limit   string // name of the limit that refused; not sent
	Retry   int    // seconds after which to try again; 0 = what is usual for the code; sent as a header
}

// Error names the field at fault, then says what is wrong with it. Clients are told the
// same: many show the message and nothing else.
func (e *Error) Error() string {
	if e.Param == "" || strings.HasPrefix(e.Message, e.Param+" ") || strings.HasPrefix(e.Message, e.Param+": ") {
		return e.Message
	}
	return e.Param + ": " + e.Message
}

// Types of errors.
const (
	TypeInvalidRequest = "invalid_request_error"
	TypePermission     = "permission_error"
	TypeRateLimit      = "rate_limit_error"
	TypeServer         = "server_error"
	TypeOverloaded     = "overloaded_error"
)

// Codes of errors. Callers of this package may also send others.
const (
	CodeInvalidJSON      = "invalid_json"
	CodeInvalidType      = "invalid_type"
	CodeInvalidValue     = "invalid_value"
	CodeMissingParameter = "missing_required_parameter"
	CodeUnsupported      = "unsupported_parameter"
	CodeUnsupportedTool  = "unsupported_tool"
	CodeHostNotAllowed   = "mcp_host_not_allowed"
	CodeInvalidSchema    = "invalid_json_schema"
	CodeRefusedSchema    = "unsupported_schema"
	CodeContextLength    = "context_length_exceeded"
	CodeInvalidKey       = "invalid_api_key"
	CodeModelNotFound    = "model_not_found"
	CodeNotFound         = "not_found"
	CodeResponseNotFound = "response_not_found"
	CodeNotCancellable   = "response_not_cancellable"
	CodeInProgress       = "response_in_progress"
	CodeEncrypted        = "invalid_encrypted_content"
	CodeStoreFailed      = "store_unavailable"
	CodeDamaged          = "response_damaged"
	CodeMethod           = "method_not_allowed"
	CodeVersion          = "http_version_not_supported"
	CodeTooLarge         = "request_too_large"
	CodeMediaType        = "unsupported_media_type"
	CodeRateLimit        = "rate_limit_exceeded"
	CodeQueueFull        = "queue_full"
	CodeInternal         = "internal_error"
	CodeLoading          = "loading"
	CodeUnloaded         = "model_unloaded"
	CodeLoadFailed       = "model_load_failed"
	CodeDraining         = "draining"
	CodeOverloaded       = "overloaded"
)

// Invalid returns the error of a request whose field param has a bad value.
func Invalid(param, message string) *Error {
	return &Error{Message: message, Type: TypeInvalidRequest, Param: param, Code: CodeInvalidValue}
}

// Missing returns the error of a request without the field param.
func Missing(param string) *Error {
	return &Error{Message: param + " is required", Type: TypeInvalidRequest, Param: param, Code: CodeMissingParameter}
}

// Unsupported returns the error of a request that asks for what this server does not do.
func Unsupported(param, message string) *Error {
	return &Error{Message: message, Type: TypeInvalidRequest, Param: param, Code: CodeUnsupported}
}

// AppendError appends the body {"error":{…}}.
func AppendError(dst []byte, e *Error) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = AppendString(dst, e.Error())
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = AppendText(dst, Text(e.Param))
	dst = append(dst, `,"code":`...)
	dst = AppendText(dst, Text(e.Code))
	return append(dst, "}}"...)
}

// AppendLost appends the error event that ends a stream of the Responses API of which
// there is no object any more; n is its number.
func AppendLost(dst []byte, e *Error, n int) []byte {
	dst = strconv.AppendInt(append(dst, "event: error\ndata: {\"type\":\"error\",\"sequence_number\":"...), int64(n), 10)
	dst = AppendText(append(dst, `,"code":`...), Text(e.Code))
	dst = AppendString(append(dst, `,"message":`...), e.Error())
	dst = AppendText(append(dst, `,"param":`...), Text(e.Param))
	return append(dst, "}\n\n"...)
}
