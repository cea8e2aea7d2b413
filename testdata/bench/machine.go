package main

import (
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// thisMachine tells what the figures are measured on.
func thisMachine(rounds int) machine {
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m := machine{
		Date: time.Now().UTC().Format("2006-01-02"), Processors: runtime.NumCPU(), Go: runtime.Version(),
		Kernel: strings.TrimSpace(string(kernel)), LoadBefore: load(), Rounds: rounds,
		Model: lineOf("/proc/cpuinfo", `(?m)^model name\s*: (.*)$`), System: lineOf("/etc/os-release", `(?m)^PRETTY_NAME="?(.*?)"?$`),
	}
	if kilobytes, err := strconv.Atoi(lineOf("/proc/meminfo", `(?m)^MemTotal:\s*(\d+)`)); err == nil {
		m.MemoryMegabytes = kilobytes / 1024
	}
	for _, p := range []struct{ name, args, version string }{
		{"redis-server", "--version", `v=(\S+)`},
		{"flock", "--version", `util-linux \S+`},
		{"timeout", "--version", `coreutils\) (\S+)`},
		{"etcdctl", "version", `etcdctl version: (\S+)`},
		{"dpkg-query", "-W -f=${Version} s6", `^(\S+)$`},
	} {
		out, err := exec.Command(p.name, strings.Fields(p.args)...).Output()
		if match := regexp.MustCompile(p.version).FindStringSubmatch(string(out)); err == nil && match != nil {
			name := strings.TrimSuffix(strings.Replace(p.name, "dpkg-query", "s6", 1), "ctl")
			m.Programs = append(m.Programs, strings.TrimPrefix(name+" "+match[len(match)-1], "flock "))
		}
	}
	return m
}

func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// lineOf returns what the pattern's parentheses hold in a file.
func lineOf(file, pattern string) string {
	text, _ := os.ReadFile(file)
	if match := regexp.MustCompile(pattern).FindSubmatch(text); match != nil {
		return string(match[1])
	}
	return ""
}
