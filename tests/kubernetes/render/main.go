// SPDX-License-Identifier: Apache-2.0

// Renders a Helm chart, as "helm template NAME CHART [--values FILE] [--set KEY=VALUE] [--set-file KEY=FILE]
// [--kube-version VERSION]..." does: by Go's templates and the Sprig functions, which are what Helm has them rendered by.
// What Helm adds to these is here as far as the chart of this repository uses it; another function is an error. Debian
// has no Helm. "values" shows what the chart has to go by.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"text/template"

	"github.com/Masterminds/sprig"
	"sigs.k8s.io/yaml"
)

type values = map[string]interface{}

// Helm's own functions. The templates that include names are known when they are executed.
func functions(all *template.Template) template.FuncMap {
	funcs := sprig.TxtFuncMap()
	// A chart must not depend on the machine that renders it.
	delete(funcs, "env")
	delete(funcs, "expandenv")
	funcs["include"] = func(name string, data interface{}) (string, error) {
		var out strings.Builder
		err := all.ExecuteTemplate(&out, name, data)
		return out.String(), err
	}
	funcs["toYaml"] = func(value interface{}) (string, error) {
		out, err := yaml.Marshal(value)
		return strings.TrimSuffix(string(out), "\n"), err
	}
	funcs["fromYaml"] = func(text string) (values, error) {
		out := values{}
		err := yaml.Unmarshal([]byte(text), &out)
		return out, err
	}
	return funcs
}

func readYaml(path string) (values, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out := values{}
	return out, yaml.UnmarshalStrict(text, &out)
}

// Lays values over others: maps are merged, and null takes a key away.
func lay(over, under values) {
	for key, value := range over {
		inner, isMap := value.(values)
		below, wasMap := under[key].(values)
		switch {
		case value == nil:
			delete(under, key)
		case isMap && wasMap:
			lay(inner, below)
		default:
			under[key] = value
		}
	}
}

// What --set says, whose value is YAML here, or --set-file, which names a file with it.
func assigned(option, setting string) (values, error) {
	key, text, found := strings.Cut(setting, "=")
	if !found {
		return nil, fmt.Errorf("%s %s: not KEY=VALUE", option, setting)
	}
	var value interface{}
	if option == "--set-file" {
		content, err := os.ReadFile(text)
		if err != nil {
			return nil, err
		}
		value = string(content)
	} else if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		return nil, fmt.Errorf("%s %s: %w", option, setting, err)
	}
	names := strings.Split(key, ".")
	out := values{names[len(names)-1]: value}
	for i := len(names) - 2; i >= 0; i-- {
		out = values{names[i]: out}
	}
	return out, nil
}

func chosen(chart string, options []string) (values, error) {
	out, err := readYaml(filepath.Join(chart, "values.yaml"))
	for i := 0; i < len(options) && err == nil; i += 2 {
		var over values
		switch {
		case i+1 == len(options):
			return nil, fmt.Errorf("%s: what?", options[i])
		case options[i] == "--values":
			over, err = readYaml(options[i+1])
		case options[i] == "--kube-version":
		case options[i] == "--set" || options[i] == "--set-file":
			over, err = assigned(options[i], options[i+1])
		default:
			return nil, fmt.Errorf("unknown option %s", options[i])
		}
		lay(over, out)
	}
	return out, err
}

// The cluster's: 1.29 has all that charts of this repository need.
func version(options []string) string {
	for i := 0; i+1 < len(options); i += 2 {
		if options[i] == "--kube-version" {
			return options[i+1]
		}
	}
	return "v1.29.0"
}

func render(release, chart string, options []string) (string, error) {
	set, err := chosen(chart, options)
	if err != nil {
		return "", err
	}
	about, err := readYaml(filepath.Join(chart, "Chart.yaml"))
	if err != nil {
		return "", err
	}
	all := template.New(chart).Option("missingkey=zero")
	all.Funcs(functions(all))
	paths, err := filepath.Glob(filepath.Join(chart, "templates", "*"))
	sort.Strings(paths)
	for i := 0; i < len(paths) && err == nil; i++ {
		var text []byte
		if text, err = os.ReadFile(paths[i]); err == nil {
			_, err = all.New(paths[i]).Parse(string(text))
		}
	}
	data := values{"Values": set, "Chart": about, "Release": values{"Name": release, "Service": "Helm"},
		"Capabilities": values{"KubeVersion": values{"Version": version(options)}}}
	var documents []string
	for i := 0; i < len(paths) && err == nil; i++ {
		var out bytes.Buffer
		if err = all.ExecuteTemplate(&out, paths[i], data); err != nil {
			break
		}
		text := strings.TrimSpace(strings.ReplaceAll(out.String(), "<no value>", ""))
		if text != "" && !strings.HasPrefix(filepath.Base(paths[i]), "_") {
			documents = append(documents, text+"\n")
		}
	}
	return strings.Join(documents, "---\n"), err
}

// The values that a rendering has.
func show(_, chart string, options []string) (string, error) {
	set, err := chosen(chart, options)
	if err != nil {
		return "", err
	}
	text, err := yaml.Marshal(set)
	return string(text), err
}

func main() {
	what := map[string]func(string, string, []string) (string, error){"template": render, "values": show}
	if len(os.Args) < 4 || what[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "Usage: render template|values NAME CHART [--values FILE | --set KEY=VALUE | --set-file KEY=FILE | --kube-version VERSION]...")
		os.Exit(2)
	}
	text, err := what[os.Args[1]](os.Args[2], os.Args[3], os.Args[4:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "render:", err)
		os.Exit(1)
	}
	fmt.Print(text)
}
