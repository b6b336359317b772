//! The repository's files, and what of a Rust file is code that ships.

use std::path::{Path, PathBuf};

/// One file, by its path from the root.
#[derive(Debug, Clone)]
pub struct SourceFile {
    pub path: String,
    pub text: String,
}

pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("the tests are a folder of the repository").to_owned()
}

pub fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Every Rust file.
pub fn rust_sources() -> Vec<SourceFile> {
    let sources: Vec<_> = text_files().into_iter().filter(|file| file.path.ends_with(".rs")).collect();
    assert!(sources.len() > 100, "the sources were not found from {}", root().display());
    sources
}

/// Every file that is text and belongs to the repository.
pub fn text_files() -> Vec<SourceFile> {
    let mut files = Vec::new();
    collect(&root(), &root(), &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// What no clone has: build products, data of a running cluster, the history.
const NOT_OURS: [&str; 5] = [".git", "target", ".turnwright", "node_modules", "__pycache__"];

fn collect(root: &Path, directory: &Path, files: &mut Vec<SourceFile>) {
    let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    for entry in entries.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        // A file may go away while this looks at the folder.
        let Ok(kind) = entry.file_type() else { continue };
        // In a linked worktree `.git` is a file.
        if NOT_OURS.iter().any(|ours| name == *ours) {
            continue;
        }
        if kind.is_dir() {
            collect(root, &path, files);
        } else if kind.is_file()
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            let path = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
            files.push(SourceFile { path, text });
        }
    }
}

impl SourceFile {
    /// Whether the whole file is test code, or an example for callers to copy.
    pub fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.starts_with("tests/")
            || self.path.starts_with("infra/examples/")
            || self.path.contains("/tests/")
            || name == "tests.rs"
            || name.ends_with("_tests.rs")
    }

    /// The lines that ship, with their numbers: no comments, no items under `#[cfg(test)]`.
    pub fn code(&self) -> Vec<(usize, &str)> {
        let mut code = Vec::new();
        let mut lines = self.text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            let trimmed = line.trim_start();
            if trimmed.starts_with("#[cfg(test)]") {
                skip_item(&mut lines);
            } else if !trimmed.starts_with("//") {
                code.push((number + 1, before_comment(line)));
            }
        }
        code
    }
}

/// Skips the item that an attribute stands before: to its semicolon, or to the brace at its own indentation.
fn skip_item<'t>(lines: &mut impl Iterator<Item = (usize, &'t str)>) {
    let mut end = None;
    for (_, line) in lines {
        let trimmed = line.trim_start();
        if end.is_none() && (trimmed.starts_with("#[") || trimmed.starts_with("//")) {
            continue;
        }
        let indent = &line[..line.len() - trimmed.len()];
        let end: &String = end.get_or_insert_with(|| format!("{indent}}}"));
        if line.starts_with(end.as_str())
            || (line.starts_with(indent) && line.ends_with(';') && end.len() == indent.len() + 1)
        {
            return;
        }
    }
}

/// The line without a comment at its end.
fn before_comment(line: &str) -> &str {
    line.split_once(" // ").map_or(line, |(code, _)| code)
}
