//! One suite for every store: a reference model driven by random histories, and named cases for what a history cannot
//! show. The real Redis is started here, from PATH; a machine without `redis-server` fails these tests.

mod faults;
mod frozen;
mod machine;
mod model;
mod named;
mod proxy;
mod refused;
mod retention;
mod server;
mod settings;
mod step;
mod support;
