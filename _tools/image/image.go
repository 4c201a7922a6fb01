package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// refName is the annotation by which tools find an image in a layout.
const refName = "org.opencontainers.image.ref.name"

// A platformImage is the image for a processor.
type platformImage struct {
	v1.Image
	processor string // as Go names it
}

// platform is what an index says of it.
func (p *platformImage) platform() *v1.Platform {
	return &v1.Platform{OS: "linux", Architecture: p.processor}
}

// config is how the program is started. Whoever gives no arguments gets a server that nobody
// outside the container reaches: it listens on the container's own loopback. deploy/Dockerfile
// says the same in its words, and a test compares them.
func (o *origin) config() v1.Config {
	config := v1.Config{
		User:         fmt.Sprintf("%d:%[1]d", user),
		Env:          []string{"PATH=/usr/local/bin", "HOME=/home/ossian", "container=oci"},
		Entrypoint:   []string{"/usr/local/bin/ossian"},
		Cmd:          []string{"serve"},
		WorkingDir:   "/home/ossian",
		ExposedPorts: map[string]struct{}{"8000/tcp": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "Ossian",
			"org.opencontainers.image.version":  o.version,
			"org.opencontainers.image.revision": o.revision,
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if o.source != "" {
		config.Labels["org.opencontainers.image.source"] = o.source
	}
	return config
}

// image puts a program into an image of one layer.
func (o *origin) image(processor, program string) (v1.Image, error) {
	entries, err := o.entries(processor, program)
	if err != nil {
		return nil, err
	}
	files, err := o.archive(entries)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	created := v1.Time{Time: o.time}
	image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: created, CreatedBy: "ossian/image"}})
	if err != nil {
		return nil, err
	}
	described, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	described = described.DeepCopy()
	described.OS, described.Architecture, described.Created, described.Config = "linux", processor, created, o.config()
	return mutate.ConfigFile(image, described)
}

// layout writes images: an index of all under the version, by which registries and clusters
// choose, and each alone under VERSION-PROCESSOR, for tools that do not choose.
func (o *origin) layout(out string, images []platformImage) (string, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: image.platform()}})
	}
	dir, err := layout.Write(out, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return "", err
	}
	if err := dir.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: o.version})); err != nil {
		return "", err
	}
	for _, image := range images {
		named := layout.WithAnnotations(map[string]string{refName: o.version + "-" + image.processor})
		if err := dir.AppendImage(image, named, layout.WithPlatform(*image.platform())); err != nil {
			return "", err
		}
		if err := linkLayer(out, image); err != nil {
			return "", err
		}
	}
	digest, err := index.Digest()
	return digest.String(), err
}

// linkLayer gives the layer of an image a second name, layer-PROCESSOR.tar.gz: what
// deploy/Dockerfile adds, where the layout is the folder that docker build is given.
func linkLayer(out string, image platformImage) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	digest, err := layers[0].Digest()
	if err != nil {
		return err
	}
	return os.Link(filepath.Join(out, "blobs", digest.Algorithm, digest.Hex), filepath.Join(out, "layer-"+image.processor+".tar.gz"))
}
