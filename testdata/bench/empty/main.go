// Empty does nothing: what is left is what every Go program costs.
package main

func main() {}
