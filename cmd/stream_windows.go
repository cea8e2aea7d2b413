package cmd

import "os"

func wasClosed(*os.File) bool { return false }

func columns(*os.File) int { return 0 }
