//! Keeps a program that cannot notice its parent's death: it ends when this process' standard input does.

use std::process::Stdio;

use tokio::process::Command;
use tokio::sync::oneshot;

use crate::error::Error;
use crate::exit;

/// Runs the program until it ends or standard input does.
pub async fn guard(program: &[String]) -> Result<u8, Error> {
    let (name, arguments) = program.split_first().ok_or_else(|| Error::failed("guard", "no program is named"))?;
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| Error::failed(name.clone(), error))?;
    let (orphan, orphaned) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        // The program may have ended by itself, and nobody waits any more.
        let _ = orphan.send(());
    });
    tokio::select! {
        status = child.wait() => {
            let status = status.map_err(|error| Error::failed(name.clone(), error))?;
            Ok(if status.success() { exit::COMPLETED } else { exit::OTHER })
        }
        _ = orphaned => {
            // Every commit it has acknowledged is on disk, so killing it loses nothing.
            let _ = child.kill().await;
            Ok(exit::OTHER)
        }
    }
}
