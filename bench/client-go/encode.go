package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
)

// encode reads a line of JSON per object. It writes the length of its message in four bytes, big-endian, then the message.
func encode(kind string, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) == 0 && errors.Is(err, io.EOF) {
			return nil
		}
		var object interface{ Marshal() ([]byte, error) }
		switch kind {
		case "Pod":
			object = &corev1.Pod{}
		case "Secret":
			object = &corev1.Secret{}
		case "ConfigMap":
			object = &corev1.ConfigMap{}
		default:
			return fmt.Errorf("no message of kind %s", kind)
		}
		if err := json.UnmarshalCaseSensitivePreserveInts(line, object); err != nil {
			return fmt.Errorf("reading an object: %w", err)
		}
		message, err := object.Marshal()
		if err != nil {
			return err
		}
		if err := binary.Write(out, binary.BigEndian, uint32(len(message))); err != nil {
			return err
		}
		if _, err := out.Write(message); err != nil {
			return err
		}
	}
}
