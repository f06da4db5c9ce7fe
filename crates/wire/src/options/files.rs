//! Option files (`my.cnf`).
