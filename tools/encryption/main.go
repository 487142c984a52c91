// Command encryption prints values as kube-apiserver encrypts them at rest, and its errors for unreadable values and for invalid
// configurations. They are test data for windlass-storage:
//
//	go run ./encryption > ../crates/windlass-storage/testdata/encryption.tsv
//
// A line "value" has the configuration, the resource, the key in etcd, the value and the encrypted value, all but the resource and
// the key in base64. A line "unreadable" has the error instead of the value. A line "error" has the configuration in base64 and the
// error. Encrypted values contain random numbers, so they differ each time.
//
// KMS providers use the plugin in kms.go. Its socket is ENDPOINT in the configurations.
//
// With the argument "read", the command reads such lines "value" and fails if kube-apiserver does not decrypt one of them.
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

const head = "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n"

// keys has keys of 16, 24 and 32 bytes, and one of another length.
var keys = map[int]string{
	16: "AAECAwQFBgcICQoLDA0ODw==",
	24: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYX",
	32: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
	5:  "AAECAwQ=",
}

// rule returns the rule of some resources with some providers, which are separated by semicolons.
func rule(resources, providers string) string {
	text := "- resources: [" + resources + "]\n  providers:\n"
	for _, provider := range strings.Split(providers, ";") {
		text += "  - " + provider + "\n"
	}
	return text
}

// provider returns a provider with some keys.
func provider(kind string, lengths ...int) string {
	var list []string
	for at, length := range lengths {
		list = append(list, fmt.Sprintf("{name: key%d, secret: %s}", at+1, keys[length]))
	}
	return kind + ": {keys: [" + strings.Join(list, ", ") + "]}"
}

// other is a key of 32 bytes that differs from the one in keys.
const other = "HxIeAQ0CAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxw="

// named returns a provider with one key of this name.
func named(kind, name string, length int) string {
	return fmt.Sprintf("%s: {keys: [{name: %s, secret: %s}]}", kind, name, keys[length])
}

// kms returns a provider of the plugin.
func kms(name string) string {
	return "kms: {apiVersion: v2, name: " + name + ", endpoint: ENDPOINT}"
}

// kmsWith returns a provider of the plugin with other fields.
func kmsWith(fields string) string {
	return "kms: {" + fields + "}"
}

var valid = []string{
	rule("secrets", provider("aesgcm", 16)),
	rule("secrets", provider("aesgcm", 24)),
	rule("secrets", provider("aesgcm", 32, 16)),
	rule("secrets", provider("aescbc", 16)),
	rule("secrets", provider("aescbc", 24)),
	rule("secrets", provider("aescbc", 32)),
	rule("secrets", provider("secretbox", 32)),
	rule("secrets", "identity: {}"),
	rule("secrets", provider("secretbox", 32)+";"+provider("aescbc", 32)+";identity: {}"),
	rule("secrets", kms("first")),
	rule("secrets", kms("second")+";"+kms("first")+";identity: {}"),
	// The data encryption key is not derived from a seed.
	rule("secrets", kms(unseeded)),
}

var values = []string{"", "x", "exactly 16 bytes", strings.Repeat("a longer value, of many blocks. ", 40)}

var invalid = []string{
	"",
	"resources: []\n",
	rule("", "identity: {}"),
	"- resources: [secrets]\n",
	rule("secrets", "{}"),
	rule("secrets", "identity: {}\n    aescbc: {keys: [{name: a, secret: "+keys[32]+"}]}"),
	rule("secrets", "aesgcm: {keys: []}"),
	rule("secrets", provider("aesgcm", 5)),
	rule("secrets", provider("aescbc", 32, 5)),
	rule("secrets", provider("secretbox", 16)),
	rule("secrets", "aesgcm: {keys: [{secret: "+keys[32]+"}]}"),
	rule("secrets", "aesgcm: {keys: [{name: a}]}"),
	rule("secrets", "aesgcm: {keys: [{name: a, secret: '%'}]}"),
	rule("Secrets", "identity: {}"),
	rule("'*'", "identity: {}"),
	rule("servicenodeportallocations", "identity: {}"),
	rule("events.events.k8s.io", "identity: {}"),
	rule("deployments.extensions", "identity: {}"),
	rule("'secrets.*'", "identity: {}"),
	rule("secrets, secrets", "identity: {}"),
	rule("secrets, '*.'", "identity: {}"),
	rule("secrets, '*.*'", "identity: {}"),
	rule("'*.'", "identity: {}") + rule("secrets", "identity: {}"),
	rule("'*.*'", "identity: {}") + rule("deployments.apps", "identity: {}"),
	rule("secrets", "unknown: {}"),
	rule("secrets", "identity: {extra: 1}"),
	rule("secrets", "kms: {apiVersion: v2, name: a, endpoint: ENDPOINT, extra: 1}"),
	rule("secrets", "kms: {apiVersion: v2, name: a, endpoint: ENDPOINT, timeout: soon}"),
	rule("secrets", "kms: {}"),
	rule("secrets", kmsWith("apiVersion: v1, name: a, endpoint: ENDPOINT")),
	rule("secrets", kmsWith("name: a, endpoint: ENDPOINT")),
	rule("secrets", kmsWith("apiVersion: v1, name: 'a:b', endpoint: ENDPOINT, cachesize: 0")),
	rule("secrets", kmsWith("apiVersion: v3, name: a, endpoint: ENDPOINT")),
	rule("secrets", kmsWith("apiVersion: v2, endpoint: ENDPOINT")),
	rule("secrets", kmsWith("apiVersion: v2, name: 'a:b', endpoint: ENDPOINT")),
	rule("secrets", kmsWith("apiVersion: v2, name: a")),
	rule("secrets", kmsWith("apiVersion: v2, name: a, endpoint: /run/kms.sock")),
	rule("secrets", kmsWith("apiVersion: v2, name: a, endpoint: 'http://localhost:80'")),
	rule("secrets", kmsWith("apiVersion: v2, name: a, endpoint: 'unix:///%zz'")),
	rule("secrets", kmsWith("apiVersion: v2, name: a, endpoint: ':80'")),
	rule("secrets", kmsWith("apiVersion: v2, name: a, endpoint: ENDPOINT, cachesize: 10")),
	rule("secrets", kmsWith("apiVersion: v2, name: a, endpoint: ENDPOINT, timeout: 0s")),
	rule("secrets", kmsWith("apiVersion: v2, name: a, endpoint: ENDPOINT, timeout: -1m")),
	rule("secrets", kmsWith("apiVersion: v2, name: 'a:b', endpoint: x, cachesize: 1, timeout: -1s")),
	rule("secrets", kms("a")+";"+kms("a")),
	rule("secrets", kms("a")) + rule("configmaps", kms("a")),
	rule("secrets", "kms: {apiVersion: v2, name: a, endpoint: ENDPOINT}\n    identity: {}"),
	rule("'*.'", "identity: {}") + rule("secrets", kmsWith("apiVersion: v1, name: a, endpoint: ENDPOINT")),
	rule("Secrets, secrets, secrets", "aesgcm: {keys: [{}]}"),
}

// unreadable has values, and the providers that cannot decrypt them.
var unreadable = []struct{ wrote, reads string }{
	{provider("aesgcm", 32), provider("aescbc", 32)},
	{provider("aesgcm", 32), "identity: {}"},
	{provider("aesgcm", 32), named("aesgcm", "other", 32)},
	{provider("secretbox", 32), named("secretbox", "other", 32)},
	{provider("aesgcm", 32), provider("aesgcm", 16)},
	{provider("aesgcm", 32), provider("aesgcm", 16) + ";" + provider("aesgcm", 24)},
	{provider("aesgcm", 32), provider("aesgcm", 16) + ";identity: {};" + named("aesgcm", "other", 32)},
	{provider("aesgcm", 32), "aesgcm: {keys: [{name: key1, secret: " + keys[16] + "}, {name: key1, secret: " + keys[24] + "}]}"},
	{provider("secretbox", 32), "secretbox: {keys: [{name: key1, secret: " + other + "}]}"},
	{kms("first"), "identity: {}"},
	{kms("first"), kms("second")},
}

func main() {
	directory, err := os.MkdirTemp("", "encryption")
	check(err)
	defer os.RemoveAll(directory)
	plugin := startPlugin(filepath.Join(directory, "kms.sock"))
	file := filepath.Join(directory, "config.yaml")
	load := func(text string) (*encryptionconfig.EncryptionConfiguration, error) {
		check(os.WriteFile(file, []byte(strings.ReplaceAll(text, "ENDPOINT", plugin)), 0o600))
		return encryptionconfig.LoadEncryptionConfig(context.Background(), file, false, "")
	}
	if len(os.Args) > 1 && os.Args[1] == "read" {
		read(load)
		return
	}
	write(load, file, plugin)
}

type loader func(text string) (*encryptionconfig.EncryptionConfiguration, error)

func encode(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

func decode(text string) string {
	bytes, err := base64.StdEncoding.DecodeString(text)
	check(err)
	return string(bytes)
}

var secrets = schema.GroupResource{Resource: "secrets"}

// write prints all lines.
func write(load loader, file, plugin string) {
	encrypt := func(rules, key, text string) string {
		config, err := load(head + rules)
		check(err)
		encrypted, err := config.Transformers[secrets].TransformToStorage(context.Background(), []byte(text), value.DefaultContext(key))
		check(err)
		return string(encrypted)
	}
	const key = "/registry/secrets/default/first"
	line := func(rules, key, text string) {
		fmt.Printf("value\t%s\tsecrets\t%s\t%s\t%s\n", encode(head+rules), key, encode(text), encode(encrypt(rules, key, text)))
	}
	for _, rules := range valid {
		for _, text := range values {
			line(rules, key, text)
		}
	}
	// The prefix of etcd's keys is a part of the key.
	for _, rules := range []string{rule("secrets", provider("aesgcm", 32)), rule("secrets", kms("first"))} {
		line(rules, "/clusters/one/secrets/default/first", "with another prefix")
	}
	for _, pair := range unreadable {
		encrypted := encrypt(rule("secrets", pair.wrote), key, "secret")
		config, err := load(head + rule("secrets", pair.reads))
		check(err)
		_, _, err = config.Transformers[secrets].TransformFromStorage(context.Background(), []byte(encrypted), value.DefaultContext(key))
		if err == nil {
			check(fmt.Errorf("%s decrypts the value of %s", pair.reads, pair.wrote))
		}
		fmt.Printf("unreadable\t%s\tsecrets\t%s\t%s\t%s\n", encode(head+rule("secrets", pair.reads)), key, err, encode(encrypted))
	}
	for _, rules := range invalid {
		_, err := load(head + rules)
		if err == nil {
			check(fmt.Errorf("this is valid:\n%s", rules))
		}
		shown := strings.NewReplacer(file, "FILE", plugin, "ENDPOINT", "\n", " ").Replace(err.Error())
		fmt.Printf("error\t%s\t%s\n", encode(head+rules), shown)
	}
}

// read decrypts the values of the lines on standard input.
func read(load loader) {
	count := 0
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); count++ {
		fields := strings.Split(lines.Text(), "\t")
		if len(fields) != 6 || fields[0] != "value" {
			check(fmt.Errorf("no value: %q", lines.Text()))
		}
		config, err := load(decode(fields[1]))
		check(err)
		transformer := config.Transformers[schema.ParseGroupResource(fields[2])]
		data, key := []byte(decode(fields[5])), value.DefaultContext(fields[3])
		decrypted, stale, err := transformer.TransformFromStorage(context.Background(), data, key)
		if err != nil || stale || string(decrypted) != decode(fields[4]) {
			check(fmt.Errorf("the value of %s is %q, stale %v, error %v", decode(fields[1]), decrypted, stale, err))
		}
	}
	fmt.Printf("%d values are read\n", count)
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
