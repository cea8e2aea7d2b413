package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// tree returns the process and all that descend from it. A supervisor that is
// nobody's child any more is not found.
func tree(pid int) []int {
	all := []int{pid}
	for i := 0; i < len(all); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, task := range tasks {
			list, _ := os.ReadFile(task)
			for field := range strings.FieldsSeq(string(list)) {
				child, _ := strconv.Atoi(field)
				all = append(all, child)
			}
		}
	}
	return all
}

// memory returns kilobytes of PSS, which counts what processes share in parts.
// Source: proc_pid_smaps(5).
func memory(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		var name string
		var kilobytes int
		_, _ = fmt.Sscan(line, &name, &kilobytes)
		if name == "Pss:" {
			return kilobytes
		}
	}
	return 0
}

// tick is the unit of the times in /proc/PID/stat.
const tick = 10 * time.Millisecond

// processorTime is what the threads of a process used, to the nanosecond, and
// the children that it has waited for, to the tick.
func processorTime(pid int) time.Duration {
	total := time.Duration(0)
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		var ran time.Duration
		_, _ = fmt.Sscan(string(text), &ran)
		total += ran
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	const children = 16 - 3 // cutime, of the fields that follow the name
	if len(fields) > children+1 {
		for _, field := range fields[children : children+2] {
			ticks, _ := strconv.Atoi(field)
			total += time.Duration(ticks) * tick
		}
	}
	return total
}
