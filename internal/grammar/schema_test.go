package grammar

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSchema(t *testing.T) {
	checkAccepting(t, Schema, []accepting{
		{name: "anything", source: `true`, yes: []string{`null`, `{"a":[1,"x",{}]}`, `-0.5e+10`, `[]`}, no: []string{``, `{`, `01`, `{"a":1,}`, `nul`}},
		{name: "types", source: `{"type":["integer","null"]}`, yes: []string{"null", "0", "-12"}, no: []string{"1.5", "-0", "true", `"a"`}},
		{name: "nullable", source: `{"type":"boolean","nullable":true}`, yes: []string{"null", "true"}, no: []string{"1"}},
		{name: "space", source: `{"type":"object","properties":{"a":{"type":"array","items":{"type":"null"}}},"required":["a"]}`,
			yes: []string{`{"a":[null,null]}`, `{"a": [null, null]}`, "{\n  \"a\": [\n    null,\n    null\n  ]\n}", `{ "a": [] }`},
			no:  []string{`{"a" :[]}`, `{"a":  []}`, `{"a":[null ,null]}`, ` {"a":[]}`, `{"a":[]} `, "{\n\n\"a\":[]}", "{\n" + strings.Repeat(" ", 21) + `"a":[]}`}},
		{name: "order and optional members", source: `{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"required":["b"]}`,
			yes: []string{`{"a":null,"b":null,"c":null}`, `{"b":null}`, `{"b":null,"c":null}`}, no: []string{`{}`, `{"a":null}`, `{"b":null,"a":null}`, `{"b":null,"x":null}`, `{"b":null,}`}},
		{name: "no members", source: `{"type":"object","properties":{},"additionalProperties":false}`, yes: []string{"{}", "{ }"}, no: []string{`{"a":1}`}},
		{name: "free object", source: `{"type":"object"}`, yes: []string{"{}", `{"a":{"b":[]},"a":1}`}, no: []string{"[]"}},
		{name: "map", source: `{"type":"object","additionalProperties":{"type":"integer"}}`, yes: []string{"{}", `{"x":1,"y":2}`}, no: []string{`{"x":"1"}`}},
		{name: "others after known ones", source: `{"type":"object","properties":{"a":{"type":"integer"},"ab":{"type":"null"}},"additionalProperties":{"type":"string"}}`,
			yes: []string{`{"a":1,"b":"x"}`, `{"abc":"x"}`, `{"ab":null,"":""}`}, no: []string{`{"a":"x"}`, `{"b":"x","a":1}`, `{"\u0061":"x"}`, `{"b":1}`}},
		{name: "names by pattern", source: `{"type":"object","patternProperties":{"^n_":{"type":"integer"},"_s$":{"type":"string"}},"properties":{"n_x":{"minimum":5}}}`,
			yes: []string{`{"n_x":7,"n_a":1,"a_s":"x"}`}, no: []string{`{"n_x":3}`, `{"n_a_s":1}`, `{"other":1}`, `{"n_a":"x"}`}},
		{name: "names", source: `{"type":"object","propertyNames":{"pattern":"^[a-z]{2}$"},"additionalProperties":{"type":"null"}}`, yes: []string{`{"ab":null}`}, no: []string{`{"abc":null}`, `{"AB":null}`}},
		{name: "names listed", source: `{"type":"object","propertyNames":{"enum":["x","y"]}}`, yes: []string{`{"x":1,"y":[]}`}, no: []string{`{"z":1}`}},
		{name: "number of members", source: `{"type":"object","properties":{"a":{},"b":{},"c":{}},"minProperties":1,"maxProperties":2,"additionalProperties":false}`,
			yes: []string{`{"a":1}`, `{"a":1,"c":1}`, `{"b":1,"c":1}`}, no: []string{`{}`, `{"a":1,"b":1,"c":1}`}},
		{name: "number of others", source: `{"type":"object","additionalProperties":{"type":"null"},"minProperties":1,"maxProperties":2}`, yes: []string{`{"a":null}`, `{"a":null,"b":null}`}, no: []string{`{}`, `{"a":null,"b":null,"c":null}`}},
		{name: "more members than are known", source: `{"type":"object","properties":{"a":{},"b":{}},"required":["a"],"minProperties":3}`,
			yes: []string{`{"a":1,"b":2,"c":3}`, `{"a":1,"x":2,"y":3}`, `{"a":1,"x":2,"x2":3,"y":4,"z":5}`}, no: []string{`{"a":1,"b":2}`, `{"a":1,"x":2}`, `{"a":1,"x":2,"x":3}`, `{"a":1,"x":2,"\u0078":3}`}},
		{name: "one more member than is known", source: `{"type":"object","properties":{"a":{}},"minProperties":2}`, yes: []string{`{"a":1,"b":2}`}, no: []string{`{"a":1}`, `{}`}},
		{name: "members that differ, as many as there may be", source: `{"type":"object","additionalProperties":{"type":"null"},"minProperties":2,"maxProperties":3}`,
			yes: []string{`{"a":null,"b":null}`, `{"a":null,"b":null,"a2":null}`}, no: []string{`{"a":null}`, `{"a":null,"a":null,"b":null}`, `{"a":null,"b":null,"c":null,"d":null}`}},
		{name: "members by pattern that differ", source: `{"type":"object","patternProperties":{"^x-[a-z]+$":{"type":"null"}},"additionalProperties":false,"minProperties":2}`,
			yes: []string{`{"x-a":null,"x-b":null}`}, no: []string{`{"x-a":null}`, `{"x-a":null,"x-a":null}`, `{"x-a":null,"y":null}`}},
		{name: "listed members that differ", source: `{"type":"object","propertyNames":{"enum":["p","pq","pr"]},"minProperties":3}`, yes: []string{`{"p":1,"pq":2,"pr":3}`}, no: []string{`{"p":1,"pq":2}`, `{"p":1,"p":2,"pq":2}`}},
		{name: "no names", source: `{"type":"object","propertyNames":false}`, yes: []string{`{}`}, no: []string{`{"a":1}`}},
		{name: "required without properties", source: `{"type":"object","required":["a"]}`, yes: []string{`{"a":1}`, `{"a":[],"b":2}`}, no: []string{`{}`, `{"b":1}`}},
		{name: "tuple", source: `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":{"type":"null"},"minItems":1}`,
			yes: []string{`["a"]`, `["a",1]`, `["a",1,null,null]`}, no: []string{`[]`, `[1]`, `["a",null]`, `["a",1,2]`}},
		{name: "closed tuple", source: `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false,"minItems":2}`, yes: []string{`["a",1]`}, no: []string{`["a"]`, `["a",1,1]`}},
		{name: "tuple of old", source: `{"type":"array","items":[{"type":"null"}],"additionalItems":{"type":"boolean"}}`, yes: []string{`[]`, `[null,true]`}, no: []string{`[true]`, `[null,null]`}},
		{name: "number of elements", source: `{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":4}`, yes: []string{"[true,false]", "[true,true,true,true]"}, no: []string{"[]", "[true]", "[true,true,true,true,true]"}},
		{name: "one element at most", source: `{"type":"array","items":{"type":"boolean"},"maxItems":1,"uniqueItems":true}`, yes: []string{"[]", "[true]"}, no: []string{"[true,true]"}},
		{name: "no element", source: `{"type":"array","maxItems":0}`, yes: []string{"[]", "[ ]"}, no: []string{"[1]"}},
		{name: "many elements", source: `{"type":"array","items":{"type":"null"},"minItems":300,"maxItems":1000000000}`, yes: []string{"[null" + strings.Repeat(",null", 299) + "]"}, no: []string{"[null" + strings.Repeat(",null", 298) + "]"}},
		{name: "strings", source: `{"type":"string"}`, yes: []string{`""`, `"a\n\u00e9\"\\\/日"`, `"\ud83d\ude00"`, "\"\x7f\""}, no: []string{`"`, "\"\n\"", `"\x"`, `"\ud83d"`, `"\ude00"`, "\"\xff\""}},
		{name: "lengths", source: `{"type":"string","minLength":2,"maxLength":3}`, yes: []string{`"ab"`, `"日本語"`, `"a\n\u0041"`, `"\ud83d\ude00x"`}, no: []string{`"a"`, `"abcd"`, `"\ud83d\ude00"`}},
		{name: "giant length", source: `{"type":"string","maxLength":1000000000}`, yes: []string{`""`, `"` + strings.Repeat("x", 5000) + `"`}},
		{name: "long at least", source: `{"type":"string","minLength":1000}`, yes: []string{`"` + strings.Repeat("é", 1000) + `"`}, no: []string{`"` + strings.Repeat("é", 999) + `"`}},
		{name: "pattern anywhere", source: `{"type":"string","pattern":"b+c"}`, yes: []string{`"abbcd"`, `"bc"`}, no: []string{`"ab"`}},
		{name: "pattern with special characters", source: `{"type":"string","pattern":"^[\"\\\\\\n]$"}`, yes: []string{`"\""`, `"\\"`, `"\n"`}, no: []string{`"n"`, `"\u000a"`}},
		{name: "pattern and lengths", source: `{"type":"string","pattern":"^[a-z]+$","minLength":2,"maxLength":3}`, yes: []string{`"ab"`, `"abc"`}, no: []string{`"a"`, `"abcd"`}},
		{name: "date", source: `{"type":"string","format":"date"}`, yes: []string{`"2024-02-29"`, `"2000-02-29"`, `"2023-12-31"`}, no: []string{`"2023-02-29"`, `"1900-02-29"`, `"2023-13-01"`, `"2023-04-31"`}},
		{name: "date-time", source: `{"type":"string","format":"date-time"}`, yes: []string{`"2024-02-29T23:59:59.123Z"`, `"2024-01-01T00:00:00+02:00"`}, no: []string{`"2024-01-01"`, `"2024-01-01T24:00:00Z"`}},
		{name: "email", source: `{"type":"string","format":"email"}`, yes: []string{`"a.b+c@example.co.uk"`, `"a@b"`}, no: []string{`".a@b.c"`, `"a b@c.d"`}},
		{name: "uuid", source: `{"type":"string","format":"uuid"}`, yes: []string{`"123e4567-e89b-12d3-a456-426614174000"`}, no: []string{`"123e4567"`}},
		{name: "ipv4", source: `{"type":"string","format":"ipv4"}`, yes: []string{`"192.168.0.1"`}, no: []string{`"256.1.1.1"`, `"01.1.1.1"`}},
		{name: "ipv6", source: `{"type":"string","format":"ipv6"}`, yes: []string{`"::"`, `"::1"`, `"fe80::1:2"`, `"1:2:3:4:5:6:7:8"`}, no: []string{`":::"`, `"1:2"`, `"1::2::3"`}},
		{name: "uri", source: `{"type":"string","format":"uri"}`, yes: []string{`"https://example.com:8080/a/b?x=1#y"`, `"mailto:a@b.c"`, `"urn:x:y"`}, no: []string{`"example.com"`, `"http://a b"`}},
		{name: "hostname", source: `{"type":"string","format":"hostname"}`, yes: []string{`"a.b-c.example.com"`}, no: []string{`"-a"`, `"a..b"`}},
		{name: "duration", source: `{"type":"string","format":"duration"}`, yes: []string{`"P1Y2M3DT4H5M6S"`, `"PT5M"`, `"P3W"`}, no: []string{`"P"`, `"P1H"`, `"PT"`}},
		{name: "format of a library", source: `{"type":"string","format":"password"}`, yes: []string{`"anything"`}},
		{name: "integers in a range", source: `{"type":"integer","minimum":-5,"maximum":120}`, yes: []string{"-5", "-1", "0", "9", "100", "120"}, no: []string{"-6", "121", "200", "-0", "1.0", "1e1"}},
		{name: "positive", source: `{"type":"integer","exclusiveMinimum":0}`, yes: []string{"1", "99999"}, no: []string{"0", "-1"}},
		{name: "large bounds", source: `{"type":"integer","minimum":-9223372036854775808,"maximum":9223372036854775807}`, yes: []string{"9223372036854775807", "-9223372036854775808", "0"}, no: []string{"9223372036854775808", "-9223372036854775809"}},
		{name: "numbers in a range", source: `{"type":"number","minimum":-1.5,"exclusiveMaximum":2.25}`, yes: []string{"-1.5", "-1.50", "-0.1", "0", "0.0", "2", "2.2", "2.249", "1.9999"}, no: []string{"-1.51", "-2", "2.25", "2.3", "3", "10"}},
		{name: "unit interval", source: `{"type":"number","minimum":0,"maximum":1}`, yes: []string{"0", "0.5", "1", "1.0", "1.000"}, no: []string{"1.01", "-0.1", "-0", "2"}},
		{name: "open interval", source: `{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}`, yes: []string{"0.5", "0.001", "0.999"}, no: []string{"0", "0.0", "1", "1.0"}},
		{name: "bounds of draft 4", source: `{"type":"integer","minimum":1,"exclusiveMinimum":true,"maximum":3}`, yes: []string{"2", "3"}, no: []string{"1", "4"}},
		{name: "multiples", source: `{"type":"integer","multipleOf":7,"minimum":0,"maximum":100}`, yes: []string{"0", "7", "98"}, no: []string{"8", "105"}},
		{name: "cents", source: `{"type":"number","multipleOf":0.05}`, yes: []string{"0", "1.5", "1.05", "-2.10", "3.00"}, no: []string{"1.01", "0.025", "1.051"}},
		{name: "negative range", source: `{"type":"number","minimum":-10,"maximum":-2.5}`, yes: []string{"-2.5", "-10", "-9.99", "-10.0"}, no: []string{"-2.4", "-10.1", "0", "5"}},
		{name: "enum", source: `{"enum":["a","é\n",1,1.50,null,{"b":[1,2]}]}`, yes: []string{`"a"`, `"é\n"`, "1", "1.50", "null", `{"b":[1,2]}`, `{ "b": [1, 2] }`}, no: []string{`"b"`, "1.5", "2", `{"b":[2,1]}`}},
		{name: "enum and type", source: `{"type":"string","enum":["a",1,"bb"],"maxLength":1}`, yes: []string{`"a"`}, no: []string{"1", `"bb"`}},
		{name: "pattern with a length and gaps", source: `{"type":"string","pattern":"^(abc)+$","maxLength":1000000}`, yes: []string{`"abc"`, `"abcabc"`}, no: []string{`"ab"`, `""`}},
		{name: "pattern with lengths and gaps", source: `{"type":"string","pattern":"^(abc)+$","minLength":4,"maxLength":6}`, yes: []string{`"abcabc"`}, no: []string{`"abc"`, `"abcabcabc"`}},
		{name: "not", source: `{"not":{"type":["string","object","array"]}}`, yes: []string{`null`, `1.5`, `true`}, no: []string{`"a"`, `{}`, `[]`}},
		{name: "not null", source: `{"type":["integer","null","boolean"],"not":{"enum":[null,true,7]}}`, yes: []string{`6`, `70`, `-7`, `false`}, no: []string{`null`, `7`, `true`}},
		{name: "not a text", source: `{"type":"string","not":{"enum":["a","bc"]}}`, yes: []string{`"b"`, `"ab"`, `""`}, no: []string{`"a"`, `"bc"`, `"\u0061"`}},
		{name: "not a pattern", source: `{"type":"string","maxLength":5,"not":{"pattern":"x|^a"}}`, yes: []string{`"b"`, `"ba"`}, no: []string{`"a"`, `"bx"`, `"bbbbbb"`}},
		{name: "not both members", source: `{"type":"object","properties":{"a":{},"b":{}},"not":{"required":["a","b"]}}`, yes: []string{`{}`, `{"a":1}`, `{"b":1}`}, no: []string{`{"a":1,"b":2}`}},
		{name: "not that member", source: `{"type":"object","properties":{"k":{"enum":["x","y"]}},"required":["k"],"not":{"properties":{"k":{"const":"x"}}}}`, yes: []string{`{"k":"y"}`}, no: []string{`{"k":"x"}`}},
		{name: "not one of", source: `{"type":["integer","string"],"not":{"anyOf":[{"type":"number","minimum":3},{"type":"string","maxLength":2}]}}`, yes: []string{`2`, `"abc"`}, no: []string{`3`, `"ab"`}},
		{name: "not not", source: `{"type":"integer","not":{"not":{"minimum":3}}}`, yes: []string{`3`}, no: []string{`2`}},
		{name: "reference to a part by address", source: `{"$id":"https://example.com/a/root.json","$ref":"item.json#/$defs/x","$defs":{"i":{"$id":"item.json","$defs":{"x":{"$ref":"#/$defs/y"},"y":{"type":"null"}}}}}`, yes: []string{`null`}, no: []string{`1`}},
		{name: "reference to an anchor of a part", source: `{"type":"array","items":{"$ref":"item#here"},"$defs":{"i":{"$id":"item","$defs":{"x":{"$anchor":"here","type":"null"}}},"j":{"$anchor":"here","type":"string"}}}`, yes: []string{`[null]`}, no: []string{`["a"]`}},
		{name: "reference by urn", source: `{"$id":"urn:uuid:deadbeef-1234-ff00-00ff-4321feebdaed","type":"object","properties":{"a":{"$ref":"urn:uuid:deadbeef-1234-ff00-00ff-4321feebdaed#/$defs/b"}},"required":["a"],"$defs":{"b":{"type":"null"}}}`, yes: []string{`{"a":null}`}, no: []string{`{"a":1}`}},
		{name: "reference of draft 7", source: `{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":{"$ref":"#n"},"definitions":{"a":{"$id":"#n","type":"null"}}}`, yes: []string{`[null]`}, no: []string{`[1]`}},
		{name: "reference of draft 4", source: `{"$schema":"http://json-schema.org/draft-04/schema#","id":"http://example.com/","type":"array","items":{"$ref":"n.json"},"definitions":{"a":{"id":"n.json","type":"null"}}}`, yes: []string{`[null]`}, no: []string{`[1]`}},
		{name: "address that is a value", source: `{"const":{"$id":"x","$ref":"y"},"$id":"z"}`, yes: []string{`{"$id":"x","$ref":"y"}`}, no: []string{`{}`}},
		{name: "not an integer", source: `{"not":{"type":"integer"}}`, yes: []string{`"a"`, `null`, `{}`}, no: []string{`1`}},
		{name: "oneOf with null in common", source: `{"oneOf":[{"type":["string","null"]},{"type":["integer","null"]}]}`, yes: []string{`"a"`, `1`}, no: []string{`null`, `1.5`}},
		{name: "oneOf by required members", source: `{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, yes: []string{`{"a":null}`, `{"b":null}`}, no: []string{`{}`, `{"a":null,"b":null}`}},
		{name: "oneOf of lengths", source: `{"oneOf":[{"type":"string","maxLength":4},{"type":"string","minLength":3,"maxLength":6}]}`, yes: []string{`"ab"`, `"abcde"`}, no: []string{`"abc"`, `"abcd"`, `"abcdefg"`}},
		{name: "oneOf of a value and its type", source: `{"oneOf":[{"type":"string"},{"const":"x"},{"type":"null"}]}`, yes: []string{`"y"`, `null`}, no: []string{`"x"`}},
		{name: "oneOf of integers and numbers", source: `{"oneOf":[{"type":"integer"},{"type":"number"}]}`, yes: []string{`1.5`, `-0.25`, `10.01`}, no: []string{`1`, `1.0`, `0`, `-3.00`, `1e1`}},
		{name: "oneOf of numbers and integers in bounds", source: `{"oneOf":[{"type":"number","minimum":1,"maximum":3},{"type":"integer","minimum":2}]}`, yes: []string{`1`, `1.0`, `2.5`, `4`}, no: []string{`2`, `2.0`, `3`, `0.5`, `3.5`}},
		{name: "oneOf of anything and integers", source: `{"oneOf":[{},{"type":"integer"}]}`, yes: []string{`1.5`, `"a"`, `[1]`}, no: []string{`1`, `1.0`}},
		{name: "oneOf of objects with integers and numbers", source: `{"oneOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}]}`, yes: []string{`{"a":1.5}`}, no: []string{`{"a":1}`}},
		{name: "no integer", source: `{"not":{"type":"integer"},"multipleOf":0.5,"type":["number","null"]}`, yes: []string{`0.5`, `-7.5`, `null`}, no: []string{`1`, `1.0`, `0.25`}},
		{name: "dependencies", source: `{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}},"dependencies":{"a":["b"],"b":{"required":["c"]}}}`, yes: []string{`{}`, `{"c":null}`, `{"b":null,"c":null}`, `{"a":null,"b":null,"c":null}`}, no: []string{`{"a":null}`, `{"b":null}`, `{"a":null,"b":null}`}},
		{name: "dependent members", source: `{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"dependentRequired":{"a":["b"]},"dependentSchemas":{"b":{"maxProperties":1}}}`, yes: []string{`{}`, `{"b":null}`}, no: []string{`{"a":null}`, `{"a":null,"b":null}`}},
		{name: "if", source: `{"type":"object","properties":{"k":{"enum":["x","y"]},"n":{"type":["integer","null"]}},"required":["k","n"],"if":{"properties":{"k":{"const":"x"}}},"then":{"properties":{"n":{"type":"integer"}}},"else":{"properties":{"n":{"type":"null"}}}}`, yes: []string{`{"k":"x","n":1}`, `{"k":"y","n":null}`}, no: []string{`{"k":"x","n":null}`, `{"k":"y","n":1}`}},
		{name: "if without else", source: `{"type":"integer","if":{"minimum":10},"then":{"multipleOf":5}}`, yes: []string{`3`, `10`, `15`}, no: []string{`11`}},
		{name: "set of a few", source: `{"type":"array","uniqueItems":true,"items":{"enum":["a","b",1]}}`, yes: []string{`[]`, `["b","a"]`, `[1,"a","b"]`}, no: []string{`["a","a"]`, `["a","b","a"]`, `[1,1]`}},
		{name: "set of small numbers", source: `{"type":"array","uniqueItems":true,"minItems":2,"items":{"type":"integer","minimum":-1,"maximum":2}}`, yes: []string{`[2,-1]`, `[0,1,2,-1]`}, no: []string{`[2]`, `[2,2]`, `[3,1]`}},
		{name: "set of many", source: `{"type":"array","uniqueItems":true,"items":{"type":"integer","minimum":1,"maximum":20}}`, yes: []string{`[]`, `[1,7,20]`, `[20,3,2]`}, no: []string{`[7,7]`, `[7,2,7]`, `[21]`}},
		{name: "const", source: `{"const":"x"}`, yes: []string{`"x"`}, no: []string{`"y"`}},
		{name: "anyOf", source: `{"anyOf":[{"type":"integer"},{"type":"object","properties":{"a":{"type":"null"}},"required":["a"]},{"type":"object","properties":{"ab":{"type":"null"}},"required":["ab"]}]}`,
			yes: []string{"1", `{"a":null}`, `{"ab":null}`}, no: []string{`{}`, `{"a":null,"ab":null}`}},
		{name: "anyOf beside others", source: `{"type":"object","properties":{"k":{"type":"string"}},"required":["k"],"anyOf":[{"properties":{"k":{"const":"a"},"x":{"type":"null"}},"required":["x"]},{"properties":{"k":{"const":"b"}}}]}`,
			yes: []string{`{"k":"a","x":null}`, `{"k":"b"}`}, no: []string{`{"k":"a"}`, `{"k":"c"}`}},
		{name: "allOf", source: `{"allOf":[{"$ref":"#/$defs/base"},{"properties":{"b":{"type":"integer"}},"required":["b"]}],"$defs":{"base":{"type":"object","properties":{"a":{"type":"string"},"b":{"minimum":3}},"required":["a"]}}}`,
			yes: []string{`{"a":"x","b":3}`}, no: []string{`{"a":"x"}`, `{"b":3}`, `{"a":"x","b":2}`}},
		{name: "oneOf by type", source: `{"oneOf":[{"type":"string"},{"type":"null"},{"type":"integer","maximum":3},{"type":"number","minimum":4}]}`, yes: []string{`"a"`, "null", "3", "4.5"}, no: []string{"3.5"}},
		{name: "oneOf of long lists", source: `{"oneOf":[{"enum":["a0"` + numbers(4900, `,"a%d"`) + `]},{"enum":["b0"` + numbers(4900, `,"b%d"`) + `]}]}`, yes: []string{`"a7"`, `"b4899"`}, no: []string{`"b4900"`}},
		{name: "oneOf by constant", source: `{"oneOf":[{"$ref":"#/$defs/cat"},{"$ref":"#/$defs/dog"}],"discriminator":{"propertyName":"k"},"$defs":{"cat":{"type":"object","properties":{"k":{"const":"cat"},"lives":{"type":"integer"}},"required":["k","lives"]},"dog":{"type":"object","properties":{"k":{"const":"dog"}},"required":["k"]}}}`,
			yes: []string{`{"k":"cat","lives":9}`, `{"k":"dog"}`}, no: []string{`{"k":"dog","lives":9}`, `{"k":"bird"}`}},
		{name: "oneOf by closed objects", source: `{"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false},{"type":"object","properties":{"b":{}},"required":["b"],"additionalProperties":false}]}`,
			yes: []string{`{"a":1}`, `{"b":1}`}, no: []string{`{"a":1,"b":1}`, `{}`}},
		{name: "recursion", source: `{"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}}`,
			yes: []string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":{"v":3,"next":null}}}`}, no: []string{`{"v":1}`, `{"v":1,"next":{"v":2}}`}},
		{name: "recursion of trees", source: `{"type":"object","properties":{"n":{"type":"string"},"c":{"type":"array","items":{"$ref":"#"}}},"required":["n","c"],"additionalProperties":false}`,
			yes: []string{`{"n":"a","c":[{"n":"b","c":[]},{"n":"c","c":[{"n":"d","c":[]}]}]}`}, no: []string{`{"n":"a","c":[1]}`}},
		{name: "references", source: `{"type":"array","prefixItems":[{"$ref":"#/$defs/a~1b%20c"},{"$ref":"#here"},{"$ref":"#/prefixItems/0"}],"minItems":3,"$defs":{"a/b c":{"type":"null"},"x":{"$anchor":"here","type":"boolean"}}}`, yes: []string{"[null,true,null]"}, no: []string{"[true,null,null]"}},
		{name: "dead members vanish", source: `{"type":"object","properties":{"a":false,"b":{"type":"null"},"c":{"allOf":[{"type":"null"},{"type":"string"}]}}}`, yes: []string{`{}`, `{"b":null}`}, no: []string{`{"a":1}`, `{"c":null}`}},
		{name: "annotations", source: `{"$schema":"https://json-schema.org/draft/2020-12/schema","title":"T","description":"d","type":"null","default":null,"examples":[null],"deprecated":true,"x-mine":1}`, yes: []string{"null"}},
		{name: "names that need escapes", source: `{"type":"object","properties":{"a\"b\n":{"type":"null"}},"required":["a\"b\n"]}`, yes: []string{`{"a\"b\n":null}`}},
		{name: "unevaluated", source: `{"allOf":[{"type":"object","properties":{"a":{"type":"null"}}}],"unevaluatedProperties":false}`, yes: []string{`{}`, `{"a":null}`}, no: []string{`{"b":1}`}},
	})
}

// numbers is form with each number from 1 to n-1.
func numbers(n int, form string) string {
	var out strings.Builder
	for i := 1; i < n; i++ {
		fmt.Fprintf(&out, form, i)
	}
	return out.String()
}

func TestSchemaErrors(t *testing.T) {
	checkErrors(t, Schema, []struct{ name, source, want string }{
		{"no JSON", `{"type"`, "not JSON"},
		{"more than JSON", `{} {}`, "after the value"},
		{"twice", `{"type":"null","type":"null"}`, "twice"},
		{"deep", strings.Repeat(`{"items":`, 70) + "true" + strings.Repeat("}", 70), "nested deeper"},
		{"unknown type", `{"type":"int"}`, "#: type: null, boolean"},
		{"bad bound", `{"properties":{"a":{"maxLength":-1}}}`, "#/properties/a: maxLength: a whole number expected"},
		{"not", `{"properties":{"a/b":{"not":{"items":{}}}}}`, "#/properties/a~1b/not: the opposite of items cannot be held to: say what is allowed"},
		{"not a number of many", `{"type":"number","not":{"const":3}}`, "#: not cannot be held to: 3 would have to be told apart"},
		{"not anything", `{"not":{"title":"x"}}`, "no value can match"},
		{"not itself", `{"not":{"$ref":"#"}}`, "refers back to itself"},
		{"not a text", `{"not":{"pattern":1}}`, "#/not: pattern: a text expected"},
		{"if", `{"if":{"items":{}},"then":{}}`, "#/if: the opposite of items cannot be held to"},
		{"oneOf that all match", `{"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]}`, "no value can match"},
		{"contains", `{"contains":{}}`, "prefixItems"},
		{"uniqueItems", `{"type":"array","uniqueItems":true,"items":{"type":"boolean"},"minItems":3}`, "#/minItems: no value can match: minItems is 3, and with uniqueItems only 2"},
		{"oneOf", `{"oneOf":[{"type":"integer","minimum":2},{"type":"integer","minimum":2}]}`, "#/oneOf: no value can match: both alternatives say the same"},
		{"oneOf of bounds within", `{"allOf":[{"oneOf":[{"type":"integer"},{"type":"number"}]},{"type":"integer"}]}`, "no value can match"},
		{"oneOf objects", `{"oneOf":[{"type":"array","items":{"type":"string"}},{"type":"array","items":{"type":"integer"}}]}`, "may both match"},
		{"remote", `{"$ref":"https://example.com/s"}`, "leaves the schema"},
		{"dangling", `{"$ref":"#/$defs/x"}`, "points to nothing"},
		{"anchor", `{"$ref":"#x"}`, "no $anchor"},
		{"no schema", `{"$ref":"#/title","title":"x"}`, "points to no schema"},
		{"ring", `{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"anyOf":[{"type":"null"},{"$ref":"#/$defs/a"}]}}}`, "refers back to itself"},
		{"nothing", `{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}`, "#/properties/a: no value can match: it would hold another one of its own kind"},
		{"false", `false`, "#: no value can match: the schema false"},
		{"false in it", `{"properties":{"x":{"type":"array","items":false,"minItems":1}},"required":["x"],"type":"object"}`, "#/properties/x/minItems: no value can match: minItems is 1, and at most 0"},
		{"false element", `{"type":"array","prefixItems":[true,{"anyOf":[false,{"allOf":[true,false]}]}],"minItems":2}`, "#/prefixItems/1/anyOf/1/allOf/1: no value can match: the schema false"},
		{"contradiction", `{"type":"integer","minimum":3,"maximum":2}`, "#/minimum: no value can match: no integer is at least 3 and at most 2"},
		{"contradiction that counts", `{"type":"object","properties":{"a":{"type":"string","minLength":5,"maxLength":3},"b/c":{"anyOf":[{"type":"string","minLength":7,"maxLength":6},{"enum":[1,"x"],"type":"null"}]}},"required":["b/c"]}`,
			"#/properties/b~1c/anyOf/0/minLength: no value can match: minLength 7 is above maxLength 6"},
		{"empty range", `{"type":"integer","exclusiveMinimum":2,"exclusiveMaximum":3}`, "#/exclusiveMinimum: no value can match: no integer is above 2 and below 3"},
		{"no multiple", `{"type":"number","minimum":0.5,"maximum":6.5,"multipleOf":7}`, "#/minimum: no value can match: no number is at least 1/2 and at most 13/2 and a multiple of 7"},
		{"enum of another type", `{"type":"object","properties":{"a":{"$ref":"#/$defs/e"}},"required":["a"],"$defs":{"e":{"type":"string","enum":[1,2]}}}`, "#/$defs/e/enum: no value can match: the keywords beside it leave no value of it: 1 has another type"},
		{"enum and bounds", `{"enum":["abc"],"maxLength":2}`, `"abc" is too short or too long`},
		{"enum and pattern", `{"const":"abc","pattern":"^b"}`, `#/const: no value can match: the keywords beside it leave no value of it: "abc" does not match`},
		{"const and enum", `{"allOf":[{"const":1},{"enum":[2,3]}]}`, "#/allOf/0/const: no value can match: const and enum have no value in common"},
		{"types", `{"allOf":[{"type":"string"},{"type":["null","integer"]}]}`, "#/allOf/0/type: no value can match: the types"},
		{"patterns", `{"allOf":[{"pattern":"^a+$"},{"pattern":"^b+$"}],"type":"string"}`, "no string can match"},
		{"pattern and length", `{"type":"string","pattern":"^a{3}$","maxLength":2}`, "#/maxLength: no value can match: no string that pattern"},
		{"required and false", `{"type":"object","properties":{"a":{"type":"object","properties":{"b":false},"required":["b"]}},"required":["a"]}`, `#/properties/a/required: no value can match: the required member "b" is not allowed`},
		{"required and closed", `{"type":"object","required":["b"],"additionalProperties":false}`, `#/required: no value can match: the required member "b"`},
		{"required and names", `{"type":"object","required":["bb"],"propertyNames":{"maxLength":1}}`, `the required member "bb"`},
		{"too few members", `{"type":"object","properties":{"a":{}},"additionalProperties":false,"minProperties":2}`, "#/minProperties: no value can match: minProperties is 2, and only 1 members"},
		{"too few live members", `{"type":"object","properties":{"a":{},"b":{"allOf":[{"type":"null"},{"type":"string"}]}},"additionalProperties":false,"minProperties":2}`, "#/minProperties: no value can match: minProperties is 2, and only 1 members"},
		{"too many required", `{"type":"object","required":["a","b"],"maxProperties":1}`, "#/maxProperties: no value can match: maxProperties is 1, and 2 members are required"},
		{"members", `{"type":"object","minProperties":3,"maxProperties":2}`, "#/minProperties: no value can match: minProperties 3 is above maxProperties 2"},
		{"elements", `{"type":"array","minItems":3,"maxItems":2}`, "#/minItems: no value can match: minItems is 3, and at most 2"},
		{"pattern", `{"type":"string","pattern":"(?<=a)b"}`, "#/pattern: regular expression"},
		{"impossible pattern", `{"type":"string","pattern":"a$b"}`, "no string can match"},
		{"pattern with giant lengths and gaps", `{"type":"string","pattern":"^(abc)+$","minLength":1000000,"maxLength":1000001}`, "take states for each number"},
		{"enum beside members", `{"enum":[{"a":1}],"properties":{"a":{}}}`, "cannot be held to"},
		{"many names", `{"type":"object","additionalProperties":true,"minProperties":5}`, "#/minProperties: minProperties 5 asks for 5 names that the schema does not list, at most 4"},
		{"names alike", `{"type":"object","patternProperties":{"^abc?$":{}},"minProperties":2,"additionalProperties":false}`, "at most 1 of which"},
		{"exponent", `{"minimum":1e999}`, "moderate exponent"},
		{"multiple", `{"type":"number","multipleOf":0.33333}`, "multipleOf"},
		{"combinations", `{"allOf":[` + strings.Repeat(`{"anyOf":[{"minimum":1},{"maximum":5}]},`, 12) + `{}]}`, "more than 512 alternatives"},
		{"not UTF-8", "{\"title\":\"\xff\"}", "UTF-8"},
	})
}

func TestIgnoredKeywords(t *testing.T) {
	odd := `{"type":"object","properties":{"a":{"type":"null","requierd":true},"b/c":{"type":"string","format":"emial"},"d":{"type":"string","format":"email"}},"propertyOrdering":["a"],"x-y":1}`
	paths := []string{"#/propertyOrdering", "#/properties/a/requierd"}
	want := func(frame int) (all []Ignored) {
		for _, path := range paths {
			all = append(all, Ignored{Frame: frame, Where: path})
		}
		return all
	}
	if got := compiled(t, Source{Text: odd}, small()).Ignored(); !slices.Equal(got, want(0)) {
		t.Errorf("got %v, want %v", got, want(0))
	}
	frames := []Frame{{Before: "a", JSON: Source{Text: odd}}, {Before: "b", JSON: Source{Kind: Object}}, {Before: "c", JSON: Source{Text: odd}}}
	if got, both := compiled(t, Source{Kind: Framed, Frames: frames}, small()).Ignored(), append(want(1), want(3)...); !slices.Equal(got, both) {
		t.Errorf("got %v, want %v", got, both)
	}
	// A format that output is not held to is an annotation.
	if got := compiled(t, Source{Text: odd}, small()).UnknownFormats(); !slices.Equal(got, []Ignored{{0, "#/properties/b~1c/format", ""}}) {
		t.Errorf("unknown formats %v", got)
	}
	if got := compiled(t, Source{Kind: Framed, Frames: frames}, small()).UnknownFormats(); !slices.Equal(got, []Ignored{{1, "#/properties/b~1c/format", ""}, {3, "#/properties/b~1c/format", ""}}) {
		t.Errorf("unknown formats %v", got)
	}
	// Pydantic writes regex for a Pattern: no reason to refuse a strict schema.
	for _, name := range []string{"regex", "uri-template", "uuid4"} {
		form := compiled(t, Source{Text: `{"type":"string","format":"` + name + `"}`}, small())
		if left, got := form.Ignored(), form.UnknownFormats(); len(left) != 0 || !slices.Equal(got, []Ignored{{0, "#/format", ""}}) || !form.accepts(`"a"`) {
			t.Errorf("%s: ignored %v, unknown %v", name, left, got)
		}
	}
	// A few kilobytes are kept of many keywords on a long path, of which there would be gigabytes.
	name := strings.Repeat("é", 100_000)
	long := `{"$ref":"#/$defs/` + name + `","$defs":{"` + name + `":{"type":"null"`
	for i := range 5000 {
		long += fmt.Sprintf(`,"odd %d":1`, i)
	}
	got := compiled(t, Source{Text: long + `}}}`}, small()).Ignored()
	if len(got) != maxIgnored || !strings.HasPrefix(got[0].Where, "#...éé") || !strings.HasSuffix(got[0].Where, "é/odd 0") {
		t.Errorf("%d, the first %v", len(got), got[:1])
	}
	for _, it := range got {
		if len(it.Where) > maxWhere+4 || !utf8.ValidString(it.Where) {
			t.Errorf("%q", it.Where)
		}
	}
}

func TestSpacePattern(t *testing.T) {
	g := compiled(t, Source{Text: `{"type":"object","properties":{"a":{"type":"array"}},"required":["a"]}`, Space: `[ \t]{0,3}`}, small())
	for text, want := range map[string]bool{"{\t\"a\":  [ ]}": true, "{\n\"a\":[]}": false, `{"a":[]}`: true} {
		if got := g.accepts(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
