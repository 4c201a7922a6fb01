// Command image puts static programs into a container image: an OCI image layout
// (github.com/opencontainers/image-spec) for several platforms, made without a base image,
// without a daemon and without a network.
//
//	go run . -version v1.2.3 -revision COMMIT -time SECONDS -out DIR \
//		-notices NOTICES.txt linux/amd64=PROGRAM linux/arm64=PROGRAM
//
// Everything that is in the image comes from the arguments, from this module and from nowhere
// else, and all times are that of the commit: the same programs give the same digest everywhere.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	var made origin
	flag.StringVar(&made.version, "version", "dev", "version, a label, and the tag of the image")
	flag.StringVar(&made.revision, "revision", "", "commit of the programs, a label")
	flag.StringVar(&made.source, "source", "", "address of the sources, a label")
	flag.StringVar(&made.notices, "notices", "", "file with the notices of what is linked into the programs")
	flag.StringVar(&made.licence, "licence", "../../LICENSE", "file with the licence of the programs")
	seconds := flag.Int64("time", 0, "time of the commit, in seconds since 1970")
	out := flag.String("out", "bin/image", "folder for the layout; it is replaced")
	flag.Parse()
	made.time = time.Unix(*seconds, 0).UTC()
	digest, err := made.write(*out, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(digest)
}

// An origin is what the programs of an image were made of.
type origin struct {
	version, revision string
	source            string    // address of the sources; "" = none
	time              time.Time // of the commit
	licence, notices  string    // files; no notices: ""
}

// write makes the layout of programs, each PLATFORM=FILE, in a folder, and beside each image its
// layer under the name that deploy/Dockerfile expects. It returns the digest of the index. What
// was in the folder is deleted, but only if it was a layout.
func (o *origin) write(out string, programs []string) (string, error) {
	if len(programs) == 0 {
		return "", errors.New("no program: linux/amd64=FILE expected")
	}
	if err := discard(out); err != nil {
		return "", err
	}
	var images []platformImage
	for _, program := range programs {
		target, file, ok := strings.Cut(program, "=")
		system, processor, both := strings.Cut(target, "/")
		if !ok || !both || system != "linux" {
			return "", fmt.Errorf("program %q: linux/PROCESSOR=FILE expected, as in linux/amd64=bin/ossian", program)
		}
		image, err := o.image(processor, file)
		if err != nil {
			return "", fmt.Errorf("%s: %w", file, err)
		}
		images = append(images, platformImage{image, processor})
	}
	return o.layout(out, images)
}

// discard deletes a layout, so that no blob of an earlier one is left in it.
func discard(dir string) error {
	found, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || (err == nil && len(found) == 0) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
		return fmt.Errorf("%s holds something else than an image layout: name another folder with -out", dir)
	}
	return os.RemoveAll(dir)
}
