// SPDX-License-Identifier: Apache-2.0

// Holds documents against the Kubernetes API's schema, and values against one of their own. Standard input is JSON:
// "documents" are {name, document, valid} and "values" {name, schema, value, valid}, where "valid" is whether they are to
// fit. Prints "passed|failed NAME" for each.
//
// The package kubernetes-models has the API as validators, which know formats and patterns and let unknown fields pass,
// and as TypeScript's types, by which its compiler finds those.
import {readFileSync} from "node:fs";
import path from "node:path";
import {fileURLToPath} from "node:url";
import Ajv from "ajv";
import typescript from "typescript";

const folder = path.dirname(fileURLToPath(import.meta.url));
let failed = false;
function report(name, problems) {
  for (const problem of problems) console.log(`  ${problem}`);
  console.log(`${problems.length ? "failed" : "passed"} ${name}`);
  failed ||= problems.length > 0;
}

const moduleOf = ({apiVersion, kind}) => `kubernetes-models/${apiVersion}/${kind}`;

async function violations(document) {
  try {
    const model = await import(moduleOf(document));
    new model[document.kind](document).validate();
    return [];
  } catch (error) {
    return [error.message];
  }
}

// What the compiler says of each document, as a constant of its kind's type in a file that is not on any disk.
function misfits(documents) {
  const files = new Map(documents.map(({document}, index) => {
    const type = `I${document.kind}`;
    const constant = `export const document: ${type} = ${JSON.stringify(document, null, 1)};`;
    return [`${folder}/document${index}.mts`,
            `import {${type}} from "${moduleOf(document)}";\n${constant}\n`];
  }));
  const {ModuleKind, ModuleResolutionKind} = typescript;
  const options = {strict: true, noEmit: true, skipLibCheck: true, module: ModuleKind.Node16,
                   moduleResolution: ModuleResolutionKind.Node16, types: []};
  const host = typescript.createCompilerHost(options);
  const {fileExists, readFile, getSourceFile} = host;
  host.fileExists = (name) => files.has(name) || fileExists(name);
  host.readFile = (name) => files.get(name) ?? readFile(name);
  host.getSourceFile = (name, ...rest) => files.has(name)
    ? typescript.createSourceFile(name, files.get(name), ...rest) : getSourceFile(name, ...rest);
  const program = typescript.createProgram([...files.keys()], options, host);
  return [...files.keys()].map((name) => typescript.getPreEmitDiagnostics(program, program.getSourceFile(name))
    .map(({messageText}) => typescript.flattenDiagnosticMessageText(messageText, "\n  ")));
}

const {documents, values} = JSON.parse(readFileSync(0, "utf8"));
const typed = misfits(documents);
for (const [index, {name, document, valid}] of documents.entries()) {
  const problems = [...await violations(document), ...typed[index]];
  report(name, valid ? problems : problems.length ? [] : ["the schema takes it"]);
}
for (const {name, schema, value, valid} of values) {
  const ajv = new Ajv({allErrors: true});
  const fits = ajv.validate(schema, value);
  report(name, fits === valid ? [] : [valid ? ajv.errorsText() : "the schema takes it"]);
}
process.exitCode = failed ? 1 : 0;
