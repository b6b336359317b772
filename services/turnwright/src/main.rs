//! The one binary: every service and the command line. `main` reads the arguments, runs one command and turns its end
//! into an exit code.

mod cli;
mod client;
mod cluster;
mod commands;
mod dev;
mod duration;
mod edge;
mod error;
mod exit;
mod follow;
mod render;
mod settings;
mod timeline;
mod wiring;

use std::process::ExitCode;

/// The services spend much of their time on small allocations that live on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match cli::parse() {
        Ok(cli) => cli,
        Err(error) => return error::report(error),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(commands::run(cli));
            // A blocked read of a terminal or a lost broker must not hold up the end.
            runtime.shutdown_background();
            result
        }
        Err(error) => Err(error::Error::failed("the async runtime cannot start", error)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => error::report(error),
    }
}
