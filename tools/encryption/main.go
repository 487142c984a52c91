// Command encryption prints values as kube-apiserver encrypts them at rest, and what it says about invalid configurations. They are
// test data for windlass-storage:
//
//	go run ./encryption > ../crates/windlass-storage/testdata/encryption.tsv
//
// A line "value" has the configuration, the resource, the key in etcd, the value and the encrypted value, all but the resource and
// the key in base64. A line "error" has the configuration in base64 and the error. Encrypted values contain random numbers, so they
// differ each time.
package main

import (
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
}

func main() {
	directory, err := os.MkdirTemp("", "encryption")
	check(err)
	defer os.RemoveAll(directory)
	file := filepath.Join(directory, "config.yaml")
	load := func(text string) (*encryptionconfig.EncryptionConfiguration, error) {
		check(os.WriteFile(file, []byte(text), 0o600))
		return encryptionconfig.LoadEncryptionConfig(context.Background(), file, false, "")
	}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	const key = "/registry/secrets/default/first"
	for _, rules := range valid {
		config, err := load(head + rules)
		check(err)
		transformer := config.Transformers[schema.GroupResource{Resource: "secrets"}]
		for _, text := range values {
			encrypted, err := transformer.TransformToStorage(context.Background(), []byte(text), value.DefaultContext(key))
			check(err)
			fmt.Printf("value\t%s\tsecrets\t%s\t%s\t%s\n", encode(head+rules), key, encode(text), encode(string(encrypted)))
		}
	}
	for _, rules := range invalid {
		_, err := load(head + rules)
		if err == nil {
			check(fmt.Errorf("this is valid:\n%s", rules))
		}
		fmt.Printf("error\t%s\t%s\n", encode(head+rules), strings.ReplaceAll(err.Error(), file, "FILE"))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
