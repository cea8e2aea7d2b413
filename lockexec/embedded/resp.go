package embedded

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Bounds of what a client may send at once, so that a mistake does not take the host's memory. Both are those of Redis
// divided by eight.
const (
	maxArgs = 128 << 10
	maxBulk = 64 << 20
)

var errProtocol = errors.New("protocol error")

// readCommand reads one command, an array of bulk strings with at least one element. Empty arrays are skipped. At the
// end between two commands it returns io.EOF.
func readCommand(r *bufio.Reader) ([]string, error) {
	for {
		n, err := readLength(r, '*', maxArgs)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			continue
		}
		args := make([]string, 0, min(n, 1024))
		for range n {
			arg, err := readBulk(r)
			if err != nil {
				return nil, unexpected(err)
			}
			args = append(args, arg)
		}
		return args, nil
	}
}

func readBulk(r *bufio.Reader) (string, error) {
	n, err := readLength(r, '$', maxBulk)
	if err != nil {
		return "", err
	}
	bulk := make([]byte, n+2)
	if _, err := io.ReadFull(r, bulk); err != nil {
		return "", err
	}
	if string(bulk[n:]) != "\r\n" {
		return "", fmt.Errorf("%w: a string longer than it says", errProtocol)
	}
	return string(bulk[:n]), nil
}

// readLength reads a line of a mark and a length, such as "$5\r\n".
func readLength(r *bufio.Reader, mark byte, limit int) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		if len(line) > 0 {
			err = unexpected(err)
		}
		return 0, err
	}
	if len(line) < 4 || line[0] != mark || line[len(line)-2] != '\r' {
		return 0, fmt.Errorf("%w: expected '%c'", errProtocol, mark)
	}
	n, err := strconv.ParseUint(string(line[1:len(line)-2]), 10, 31)
	if err != nil || int(n) > limit {
		return 0, fmt.Errorf("%w: invalid length", errProtocol)
	}
	return int(n), nil
}

// unexpected turns an end in the middle of a command into one that is not a regular end.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
