mod asking;
mod contexts;
mod examples;
mod scripts;
mod turns;
mod world;
