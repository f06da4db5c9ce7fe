CREATE TABLE t (id INT PRIMARY KEY);
CREATE VIEW v AS SELECT id FROM t WHERE id > 1 -- a comment, and no delimiter