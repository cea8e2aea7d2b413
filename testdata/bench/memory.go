package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// reportMemory prints the memory of the processes of one run while its command
// runs: PSS counts what they share in parts, private is theirs alone.
func reportMemory(program, url string) error {
	cmd := exec.Command(program, "-r", url, "-k", "memory", "--", "sh", "-c", "echo; exec cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	if _, err := stdout.Read(make([]byte, 1)); err != nil { // it runs
		return err
	}
	time.Sleep(time.Second) // for the memory of the start to be returned
	fmt.Printf("\n%-20s %10s %10s\n", "", "pss", "private")
	pid := cmd.Process.Pid
	for _, name := range []string{"wrapper", "supervisor"} {
		pss, private := memory(pid)
		fmt.Printf("%-20s %8dkB %8dkB\n", name, pss, private)
		pid = firstChild(pid)
	}
	if err := stdin.Close(); err != nil {
		return err
	}
	return cmd.Wait()
}

// memory returns kilobytes. Source: proc_pid_smaps(5).
func memory(pid int) (pss, private int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		var name string
		var kilobytes int
		_, _ = fmt.Sscan(line, &name, &kilobytes)
		switch name {
		case "Pss:":
			pss = kilobytes
		case "Private_Clean:", "Private_Dirty:":
			private += kilobytes
		}
	}
	return pss, private
}

func firstChild(pid int) int {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		list, _ := os.ReadFile(task)
		if fields := strings.Fields(string(list)); len(fields) > 0 {
			child, _ := strconv.Atoi(fields[0])
			return child
		}
	}
	return 0
}
