//! The supervisor of `turnwright dev`: a broker, a store and the five services on one machine, and the demo on them.

mod child;
mod demo;
mod guard;
mod memory;
mod place;
mod processes;
mod redis;

use std::io::IsTerminal;
use std::path::PathBuf;

use chassis::Shutdown;

use crate::error::Error;
use crate::settings::Settings;
use crate::{edge, exit};

pub use guard::guard;
use place::Place;

/// What `dev` was asked for.
#[derive(Debug)]
pub struct Options {
    pub demo: bool,
    pub memory: bool,
    pub data: Option<PathBuf>,
}

pub async fn run(settings: &Settings, options: Options) -> Result<u8, Error> {
    let shutdown = Shutdown::on_signals().map_err(|error| Error::failed("the signal handlers", error))?;
    let redis = edge::find_program("redis-server").filter(|_| !options.memory);
    let progress = Progress::new();
    if redis.is_none() {
        let why = if options.memory { "--memory" } else { "there is no redis-server in PATH" };
        progress.say(&format!("{why}: the store is in memory, and nothing survives the exit of this process"));
    }
    let place = Place::make(settings, &options, redis.is_none())?;
    progress.step("starting a broker, a store and five services");
    let running = match redis {
        Some(program) => Running::Processes(processes::start(&place, program, &shutdown, progress.clone()).await?),
        None => Running::Memory(memory::start(&place, &shutdown)?),
    };
    let result = tokio::select! {
        result = work(&place, &options, &running, &progress, &shutdown) => result,
        () = shutdown.triggered() => Ok(if options.demo { exit::OTHER } else { exit::COMPLETED }),
    };
    progress.done();
    shutdown.trigger();
    let failure = running.stop().await;
    place.leave();
    match (result, failure) {
        (Ok(_), Some(error)) => Err(error),
        (result, _) => result,
    }
}

async fn work(
    place: &Place,
    options: &Options,
    running: &Running,
    progress: &Progress,
    shutdown: &Shutdown,
) -> Result<u8, Error> {
    if options.demo {
        let run = demo::run(&place.settings, progress).await;
        return run.inspect_err(|_| running.explain());
    }
    running.ready(shutdown).await?;
    place.announce()?;
    progress.done();
    eprintln!("{}", place.banner());
    shutdown.triggered().await;
    Ok(exit::COMPLETED)
}

/// What was started.
enum Running {
    Processes(processes::Processes),
    Memory(memory::Services),
}

impl Running {
    /// Returns once every service is ready.
    async fn ready(&self, shutdown: &Shutdown) -> Result<(), Error> {
        match self {
            Self::Processes(processes) => processes.ready(shutdown).await,
            Self::Memory(services) => services.ready().await,
        }
    }

    /// Says where to look after a failure.
    fn explain(&self) {
        match self {
            Self::Processes(processes) => processes.explain(),
            Self::Memory(_) => eprintln!("TURNWRIGHT_LOG=info shows what the services do"),
        }
    }

    /// Stops everything, services first. The error is why a service failed, if one did.
    async fn stop(self) -> Option<Error> {
        match self {
            Self::Processes(processes) => {
                processes.stop().await;
                None
            }
            Self::Memory(services) => services.stop().await.err(),
        }
    }
}

/// Progress on standard error: a spinner on a terminal, plain lines elsewhere.
#[derive(Clone)]
pub struct Progress {
    bar: Option<indicatif::ProgressBar>,
}

impl Progress {
    fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = indicatif::ProgressBar::new_spinner();
            bar.enable_steady_tick(std::time::Duration::from_millis(100));
            bar
        });
        Self { bar }
    }

    /// What is being done now.
    pub fn step(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => eprintln!("{text}"),
        }
    }

    /// A line that stays.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) if !bar.is_finished() => bar.suspend(|| eprintln!("{text}")),
            Some(_) | None => eprintln!("{text}"),
        }
    }

    pub fn done(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
