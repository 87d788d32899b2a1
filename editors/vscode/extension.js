// Starts the language server for .mlir files, and again when its settings change.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

/** A setting in which ${workspaceFolder} stands for the first open folder. */
function expanded(text) {
  const folders = vscode.workspace.workspaceFolders;
  const folder = folders && folders.length > 0 ? folders[0].uri.fsPath : ".";
  return text.replaceAll("${workspaceFolder}", folder);
}

async function start() {
  const settings = vscode.workspace.getConfiguration("ge");
  const command = expanded(settings.get("server", "ge-lsp"));
  const args = settings.get("serverArguments", []).map(expanded);
  client = new LanguageClient(
    "ge",
    "ge",
    { command, args },
    { documentSelector: [{ language: "mlir" }] },
  );
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    vscode.window.showErrorMessage(
      `ge: the language server '${command}' cannot be started: ${error}. ` +
        "pip install 'ge-npu[lsp]', or say in the setting ge.server where it is.",
    );
  }
}

async function stop() {
  const running = client;
  client = undefined;
  if (running !== undefined) {
    await running.stop();
  }
}

async function restart() {
  await stop();
  await start();
}

exports.activate = async function (context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("ge.restart", restart),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("ge.server") || event.affectsConfiguration("ge.serverArguments")) {
        return restart();
      }
    }),
  );
  await start();
};

exports.deactivate = stop;
