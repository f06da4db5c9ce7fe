-- LOAD DATA without CHARACTER SET reads a file in the character set of the database, whatever SET NAMES says.
SET NAMES utf8mb4; SET sql_mode='';
CREATE DATABASE d_latin1 CHARACTER SET latin1; CREATE DATABASE d_sjis CHARACTER SET sjis;
CREATE DATABASE d_utf16 CHARACTER SET utf16; CREATE DATABASE d_utf8mb4 CHARACTER SET utf8mb4;
CREATE TABLE it.t (id INT PRIMARY KEY, u VARCHAR(20) CHARACTER SET utf8mb4, l VARCHAR(20) CHARACTER SET latin1, s VARCHAR(20) CHARACTER SET sjis,
  w VARCHAR(20) CHARACTER SET utf16, b VARBINARY(20), j JSON, e ENUM('é','ab') CHARACTER SET latin1);
INSERT INTO it.t VALUES (1, x'F09F92A9C3A9', x'C3A9FF80', x'835C955C', x'D83DDCA900E9', x'835C00C3A9FF', '{"k":"é\\n表"}', 1), (2, 'plain', 'plain', 'plain', 'plain', 'plain', '{}', 2);
CREATE TABLE d_latin1.t LIKE it.t; CREATE TABLE d_sjis.t LIKE it.t; CREATE TABLE d_utf16.t LIKE it.t; CREATE TABLE d_utf8mb4.t LIKE it.t;
INSERT INTO d_latin1.t SELECT * FROM it.t; INSERT INTO d_sjis.t SELECT * FROM it.t; INSERT INTO d_utf16.t SELECT * FROM it.t; INSERT INTO d_utf8mb4.t SELECT * FROM it.t;
-- Columns that take their character set from the database.
CREATE TABLE d_latin1.own (t VARCHAR(20)); INSERT INTO d_latin1.own VALUES (x'C3A9FF80');
CREATE TABLE d_sjis.own (t VARCHAR(20)); INSERT INTO d_sjis.own VALUES (x'835C955C');
CREATE TABLE d_utf16.own (t VARCHAR(20)); INSERT INTO d_utf16.own VALUES (x'D83DDCA900E9');
