mod hostile;
mod records;
mod rules;
mod world;
