//! `init`: a commented set of files to start from, the one that the demo runs.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::json;

use crate::error::Error;
use crate::settings::Settings;
use crate::{exit, render};

/// The files of the demo, as they stand in the repository.
pub const FILES: [(&str, &str); 6] = [
    ("agents.yaml", include_str!("../../../../infra/examples/demo/agents.yaml")),
    ("tools.yaml", include_str!("../../../../infra/examples/demo/tools.yaml")),
    ("ingress.yaml", include_str!("../../../../infra/examples/demo/ingress.yaml")),
    ("scenario.yaml", include_str!("../../../../infra/examples/demo/scenario.yaml")),
    ("policies/main.cedar", include_str!("../../../../infra/examples/demo/policies/main.cedar")),
    ("policies/cases.yaml", include_str!("../../../../infra/examples/demo/policies/cases.yaml")),
];

/// Writes agents.yaml, tools.yaml, ingress.yaml, scenario.yaml and policies/, commented, to start from.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  turnwright init my-agents && turnwright dev --config my-agents")]
pub struct Arguments {
    /// Where to; made if it is not there.
    #[arg(default_value = ".", value_name = "DIR")]
    pub directory: PathBuf,
    /// Replaces files that are there.
    #[arg(long)]
    pub force: bool,
}

pub fn run(settings: &Settings, arguments: Arguments) -> Result<u8, Error> {
    let Arguments { directory, force } = arguments;
    if !force {
        let there: Vec<&str> =
            FILES.iter().map(|(name, _)| *name).filter(|name| directory.join(name).exists()).collect();
        if !there.is_empty() {
            let why = format!("{} is there already", there.join(", "));
            return Err(Error::setting(directory.display().to_string(), why, "choose another directory, or --force"));
        }
    }
    write(&directory, force)?;
    let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
    match settings.is_json() {
        true => render::json(&json!({ "directory": directory, "files": names })),
        false => {
            render::line(format!("wrote {} to {}", names.join(", "), directory.display()));
            render::line(format!("try it: turnwright dev --config {}", directory.display()));
        }
    }
    Ok(exit::COMPLETED)
}

/// Writes the files.
pub fn write(directory: &Path, force: bool) -> Result<(), Error> {
    let failed = |path: &Path, error| Error::failed(path.display().to_string(), error);
    for (name, text) in FILES {
        let path = directory.join(name);
        let folder = path.parent().unwrap_or(directory);
        std::fs::create_dir_all(folder).map_err(|error| failed(folder, error))?;
        let mut options = std::fs::OpenOptions::new();
        // Between the look and the write somebody else may have made the file.
        options.write(true).truncate(force).create(force).create_new(!force);
        let written = options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        written.map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
