package cmd

import (
	"io"
	"os"
)

func wasClosed(*os.File) bool { return false }

func readerGone(io.Writer) bool { return false }

func columns(*os.File) int { return 0 }
