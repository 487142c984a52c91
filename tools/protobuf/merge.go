package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const header = `# The kinds and messages of the Kubernetes API that have a protobuf encoding: the union of 1.%d to 1.%d, with the definition of the
# newest version. Written by ` + "`cargo xtask protobuf`" + `; do not edit.
#
# kinds GROUP-VERSION KIND…     the kinds of a group version; KIND=MESSAGE if the message has another name; * is every group version
# message NAME                  a message. Its fields follow, one per line, in the order of the Go struct:
# NUMBER NAME TYPE [FLAGS]      the name in JSON, or - for an embedded message, whose fields are in the outer object in JSON
#
# Types: s string, b bool, i int32, l int64, f float64, y bytes, a message, or a type with its own encoding (Quantity, Time, …).
# %%[s is a message with a list of strings. Before the type: * pointer, [ list, { map.
# Flags: o omitempty, z omitzero, +N since 1.N, -N until before 1.N, if other versions have the message.
`

// single is the grammar of a field's type without its message.
var single = regexp.MustCompile(`^([*{]?%\[s|[*[{]?([sbilfy]|Quantity|IntOrString|Time|MicroTime|FieldsV1|RawExtension|JSON|JSONSchemaPropsOr(Bool|Array|StringArray):|))$`)

type mergedField struct {
	Field
	// The minor versions with the field: from since, before until if it is not 0.
	since, until int
}

type merged struct {
	kinds    map[string]map[string]string
	messages map[string][]mergedField
	first    map[string]int // the first minor version with a message
}

// merge prints the table of the types in files, each of one version.
func merge(out io.Writer, files []string) {
	var versions []Types
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			fail("%v", err)
		}
		var types Types
		if err := json.Unmarshal(text, &types); err != nil {
			fail("%s: %v", file, err)
		}
		versions = append(versions, types)
	}
	slices.SortFunc(versions, func(a, b Types) int { return a.Minor - b.Minor })
	all := merged{kinds: map[string]map[string]string{}, messages: map[string][]mergedField{}, first: map[string]int{}}
	for _, types := range versions {
		all.add(types)
	}
	names := all.names()
	fmt.Fprintf(out, header, versions[0].Minor, versions[len(versions)-1].Minor)
	all.print(out, names)
}

func (m *merged) add(types Types) {
	minor := types.Minor
	for gv, kinds := range types.Kinds {
		if m.kinds[gv] == nil {
			m.kinds[gv] = map[string]string{}
		}
		for kind, message := range kinds {
			m.kinds[gv][kind] = message
		}
	}
	for name, fields := range types.Messages {
		if _, known := m.first[name]; !known {
			m.first[name] = minor
		}
		older := map[int]mergedField{}
		for _, field := range m.messages[name] {
			older[field.Number] = field
		}
		var result []mergedField
		for _, field := range fields {
			since := minor
			if old, ok := older[field.Number]; ok {
				since = old.since
				if old.Type != field.Type {
					fail("%s.%s had the type %s before 1.%d, now %s", name, field.Name, old.Type, minor, field.Type)
				}
				delete(older, field.Number)
			}
			result = append(result, mergedField{field, since, 0})
		}
		// The fields that the newer version lacks.
		for _, field := range m.messages[name] {
			if _, gone := older[field.Number]; gone {
				if field.until == 0 {
					field.until = minor
				}
				result = append(result, field)
			}
		}
		m.messages[name] = result
	}
}

// reference splits a type into its form and its message.
func reference(typ string) (form, message string) {
	at := strings.LastIndexAny(typ, ":*[{%") + 1
	if strings.Contains(typ[at:], ".") {
		return typ[:at], typ[at:]
	}
	return typ, ""
}

// names returns the short name of each message. Messages with equal fields have the same name, and one entry in the table.
func (m *merged) names() map[string]string {
	// Messages are equal until their fields differ.
	class := map[string]string{}
	for name := range m.messages {
		class[name] = ""
	}
	for count := 0; ; {
		next, distinct := map[string]string{}, map[string]string{}
		for _, name := range sortedKeys(m.messages) {
			text := name[strings.LastIndex(name, ".")+1:]
			for _, field := range m.messages[name] {
				form, message := reference(field.Type)
				if !single.MatchString(form) {
					fail("%s.%s: windlass-protobuf does not support the type %s", name, field.Name, field.Type)
				}
				text += fmt.Sprint(field.Number, field.Name, field.Flags, form, class[message], m.flagsOf(name, field), ";")
			}
			if _, ok := distinct[text]; !ok {
				distinct[text] = name
			}
			next[name] = distinct[text]
		}
		class = next
		if len(distinct) == count {
			break
		}
		count = len(distinct)
	}
	// The short name is that of the Go type. Several different types with one name have the group version before it.
	users := map[string]map[string]bool{}
	for _, representative := range class {
		short := representative[strings.LastIndex(representative, ".")+1:]
		if users[short] == nil {
			users[short] = map[string]bool{}
		}
		users[short][representative] = true
	}
	names := map[string]string{}
	for name, representative := range class {
		short := representative[strings.LastIndex(representative, ".")+1:]
		if len(users[short]) > 1 && preferred(users[short]) != representative {
			short = filepath.Base(filepath.Dir(representative)) + "/" + filepath.Base(representative)
		}
		names[name] = short
	}
	return names
}

// preferred returns the message that keeps the short name: the first one of a stable version.
func preferred(names map[string]bool) string {
	return slices.MinFunc(sortedKeys(names), func(a, b string) int {
		beta := func(name string) int { return strings.Count(name, "beta") + strings.Count(name, "alpha") }
		return cmp.Or(cmp.Compare(beta(a), beta(b)), cmp.Compare(a, b))
	})
}

func (m *merged) flagsOf(message string, field mergedField) string {
	flags := field.Flags
	if field.since > m.first[message] {
		flags += fmt.Sprintf("+%d", field.since)
	}
	if field.until != 0 {
		flags += fmt.Sprintf("-%d", field.until)
	}
	return flags
}

func (m *merged) print(out io.Writer, names map[string]string) {
	for _, gv := range sortedKeys(m.kinds) {
		fmt.Fprintf(out, "kinds %s", gv)
		for _, kind := range sortedKeys(m.kinds[gv]) {
			fmt.Fprintf(out, " %s", kind)
			if name := names[m.kinds[gv][kind]]; name != kind {
				fmt.Fprintf(out, "=%s", name)
			}
		}
		fmt.Fprintln(out)
	}
	byName := map[string]string{}
	for _, message := range sortedKeys(m.messages) {
		if other, ok := byName[names[message]]; ok && len(m.messages[other]) != len(m.messages[message]) {
			fail("%s and %s are both called %s", other, message, names[message])
		}
		byName[names[message]] = message
	}
	for _, name := range sortedKeys(byName) {
		message := byName[name]
		fmt.Fprintf(out, "message %s\n", name)
		for _, field := range m.messages[message] {
			form, inner := reference(field.Type)
			if bare, found := strings.CutSuffix(form, ":"); found {
				if names[inner] != "JSONSchemaProps" {
					fail("%s.%s contains %s instead of JSONSchemaProps", name, field.Name, names[inner])
				}
				form, inner = bare, ""
			}
			shown := cmp.Or(field.Name, "-")
			line := fmt.Sprintf("%d %s %s%s %s", field.Number, shown, form, names[inner], m.flagsOf(message, field))
			fmt.Fprintln(out, strings.TrimRight(line, " "))
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
