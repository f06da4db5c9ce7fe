-- MySQL dump 10.13
SET sql_mode = '';
CREATE TABLE r (a TINYINT, b CHAR(2));
INSERT INTO r VALUES (1, 'ab'), (300, 'x');
-- Dump completed
