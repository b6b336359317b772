//! A seeded executor: whichever task is ready and chance picks runs next; when none is, time moves on.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;

use futures::task::{ArcWake, waker};

use super::World;

/// A process and its incarnation: tasks of a dead incarnation are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId {
    pub process: usize,
    pub incarnation: u32,
}

type Job = Pin<Box<dyn Future<Output = ()> + Send>>;

struct Task {
    owner: Option<ProcessId>,
    job: Job,
    flag: Arc<Flag>,
}

struct Flag(AtomicBool);

impl ArcWake for Flag {
    fn wake_by_ref(this: &Arc<Self>) {
        this.0.store(true, Ordering::Relaxed);
    }
}

/// Builds a process's tasks, again for every incarnation.
pub type Spawner = Box<dyn Fn(ProcessId) -> Vec<Job>>;

/// Runs processes and drivers until nothing is left to do, or virtual time is over.
pub struct Executor {
    world: World,
    tasks: Vec<Task>,
    processes: Vec<(Spawner, u32)>,
}

impl Executor {
    pub fn new(world: World) -> Self {
        Self { world, tasks: Vec::new(), processes: Vec::new() }
    }

    /// A task that belongs to no process: the caller, the operator, the world outside.
    pub fn drive(&mut self, job: impl Future<Output = ()> + Send + 'static) {
        self.push(None, Box::pin(job));
    }

    /// A process that is started now and after each of its crashes.
    pub fn process(&mut self, spawner: Spawner) {
        let process = self.processes.len();
        self.processes.push((spawner, 0));
        self.start(process);
    }

    fn start(&mut self, process: usize) {
        let (spawner, incarnation) = &mut self.processes[process];
        *incarnation += 1;
        let id = ProcessId { process, incarnation: *incarnation };
        let jobs = spawner(id);
        jobs.into_iter().for_each(|job| self.push(Some(id), job));
    }

    /// The incarnation of a process that runs now, by the order in which processes were added.
    pub fn current(&self, process: usize) -> ProcessId {
        ProcessId { process, incarnation: self.processes[process].1 }
    }

    fn push(&mut self, owner: Option<ProcessId>, job: Job) {
        self.tasks.push(Task { owner, job, flag: Arc::new(Flag(AtomicBool::new(true))) });
    }

    /// Runs until `done` says so, or until that virtual time; answers whether `done` did.
    pub fn run(&mut self, limit_ms: u64, done: impl Fn() -> bool) -> bool {
        let mut ready = Vec::new();
        loop {
            for dead in self.world.crashes() {
                let before = self.tasks.len();
                self.tasks.retain(|task| task.owner != Some(dead));
                if self.tasks.len() < before {
                    self.start(dead.process);
                }
            }
            if done() {
                return true;
            }
            ready.clear();
            ready.extend((0..self.tasks.len()).filter(|i| self.tasks[*i].flag.0.load(Ordering::Relaxed)));
            if ready.is_empty() {
                if !self.world.advance(limit_ms) {
                    return false;
                }
                continue;
            }
            let pick = usize::try_from(self.world.below(ready.len() as u64)).unwrap_or(0);
            self.poll(ready[pick]);
        }
    }

    /// Whether no task is ready now.
    pub fn is_idle(&self) -> bool {
        !self.tasks.iter().any(|task| task.flag.0.load(Ordering::Relaxed))
    }

    fn poll(&mut self, index: usize) {
        let task = &mut self.tasks[index];
        task.flag.0.store(false, Ordering::Relaxed);
        let waker = waker(task.flag.clone());
        if task.job.as_mut().poll(&mut Context::from_waker(&waker)).is_ready() {
            drop(self.tasks.swap_remove(index));
        }
    }
}
