SET NAMES utf8mb4;
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE c (id INT PRIMARY KEY, p INT, CONSTRAINT of_p FOREIGN KEY (p) REFERENCES p (id));
INSERT INTO p VALUES (1);
-- The second has no parent here; the parent that comes later does not bring it back.
INSERT IGNORE INTO c VALUES (1, 1), (99, 99);
INSERT INTO p VALUES (99);
INSERT IGNORE INTO c VALUES (2, 99), (3, 1), (4, 5);
